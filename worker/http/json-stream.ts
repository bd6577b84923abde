/**
 * A list that is too long for one answer of its object: asked for in chunks as the client takes them, so that neither
 * object nor Worker holds more than one. What goes wrong behind the first chunk breaks the connection off, for the status
 * has gone: the client is left with JSON that does not end.
 */
import type { JsonChunk } from '../../protocol/history.ts';
import { JsonText } from '../../protocol/json-text.ts';

/** `{"<name>":[…]}` of the chunks from `start` on. Rejects when the first of them cannot be read. */
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
