/** Plays all transcripts on a broker: groups run concurrently, the transcripts of a group in order. */
import type { Broker } from './broker.ts';
import { play } from './play.ts';
import type { Group } from './transcript.ts';

/** Keyed by title. */
export type Played = Map<string, Promise<string[]>>;

export function playAll(broker: Broker, groups: readonly Group[]): Played {
  const played: Played = new Map();
  for (const { name, atOnce = 1, transcripts } of groups) {
    const lane = broker.lane(name);
    const rows: Promise<unknown>[] = Array.from({ length: atOnce }, () => lane);
    for (const [index, transcript] of transcripts.entries()) {
      const row = index % atOnce;
      const outcome = after(rows[row], async () => await play(await lane, transcript));
      // The test that awaits this outcome reports its error; the next transcript does not depend on it.
      rows[row] = outcome.catch(() => {});
      played.set(transcript.title, outcome);
    }
  }
  return played;
}

async function after<Value>(
  before: Promise<unknown> | undefined,
  next: () => Promise<Value>,
): Promise<Value> {
  await before;
  return await next();
}
