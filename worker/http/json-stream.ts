/**
 * Streams a list that is too long for one RPC answer. The Worker requests the next chunk when the client has
 * read the previous one, so that object and Worker hold only one chunk. An error after the first chunk breaks
 * the connection, because the status is already sent: the client gets incomplete JSON.
 */
import type { JsonChunk } from '../../protocol/history.ts';
import { JsonText } from '../../protocol/json-text.ts';

/** `{"<name>":[…]}` with all chunks from `start`. Rejects if the first chunk cannot be read. */
export async function jsonList<Start extends number | null>(
  name: string,
  start: Start,
  read: (from: number | Start) => Promise<JsonChunk>,
): Promise<JsonText | ReadableStream<Uint8Array>> {
  const head = `{${JSON.stringify(name)}:[`;
  const first = await read(start);
  if (first.nextMs === null) return new JsonText(`${head}${first.items}]}`);
  const encoder = new TextEncoder();
  let nextMs: number | null = first.nextMs;
  let isEmpty = first.items === '';
  return new ReadableStream({
    start: (controller) => controller.enqueue(encoder.encode(head + first.items)),
    pull: async (controller) => {
      const chunk: JsonChunk = nextMs === null ? { items: '', nextMs } : await read(nextMs);
      const comma = isEmpty || chunk.items === '' ? '' : ',';
      isEmpty &&= chunk.items === '';
      nextMs = chunk.nextMs;
      controller.enqueue(encoder.encode(`${comma}${chunk.items}${nextMs === null ? ']}' : ''}`));
      if (nextMs === null) controller.close();
    },
  });
}
