/** A test's object with a publish rate: it stores publishes in order and holds those over the rate. */
import type { DeviceEdgeLink, VhostEdgeLink } from './bridge-edge.ts';

/** The tokens at the beginning, and those added with each message of the link. */
export interface Rate {
  burst: number;
  perMessage: number;
  ms: number;
}

/** Stores `total` publishes and returns them in the order in which they were stored. */
export async function takeAtRate<Link extends VhostEdgeLink | DeviceEdgeLink>(
  link: Link,
  total: number,
  { burst, perMessage, ms }: Rate,
): Promise<ReturnType<Link['takePublishes']>> {
  const taken: unknown[] = [];
  const waiting = new Map<number, string>();
  let tokens = burst;
  for (let message = 0; taken.length < total; message++) {
    const batch = (await link.untilBatches(message + 1))[message] ?? [];
    const stored: number[] = [];
    const wait: number[] = [];
    for (const frame of batch) {
      if (frame.kind !== 'publish') continue;
      const known = waiting.get(frame.seq);
      const { seq, ...rest } = frame;
      if (known !== undefined && known !== JSON.stringify(rest)) throw new Error(`${seq} came changed`);
      const isBehind = [...waiting.keys()].some((other) => other < seq);
      if (tokens > 0 && !isBehind) {
        tokens -= 1;
        waiting.delete(seq);
        stored.push(seq);
        taken.push(frame);
      } else {
        waiting.set(seq, JSON.stringify(rest));
        wait.push(seq);
      }
    }
    tokens = Math.min(burst, tokens + perMessage);
    link.send(
      ...(stored.length > 0 ? [{ kind: 'stored', seqs: stored } as const] : []),
      ...(wait.length > 0 ? [{ kind: 'wait', seqs: wait, ms, count: perMessage + 1 } as const] : []),
    );
  }
  return taken as ReturnType<Link['takePublishes']>;
}
