/** Turns in the storage of an object, for tests of one part of it, at a time that the test chooses. */
import { type Turn, Turns } from '../../../durable-objects/object/turn.ts';

/** Runs work in a turn at that time (epoch milliseconds), and then `ending` in the same turn. */
export type RunAt = <Value>(nowMs: number, work: (turn: Turn) => Value) => Value;

export function turnsOf(state: DurableObjectState, ending: (turn: Turn) => void): RunAt {
  let nowMs = 0;
  const turns = new Turns(state, { now: () => nowMs }, { ending, ended: () => {} });
  return (atMs, work) => {
    nowMs = atMs;
    return turns.run(work);
  };
}
