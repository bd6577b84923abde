/** Turns in the storage of an object, for tests that work on one of its parts alone, at a moment of their own. */
import { type Turn, Turns } from '../../../durable-objects/object/turn.ts';

/** Runs work in a turn at that moment, epoch milliseconds; what `ending` writes is last in it. */
export type RunAt = <Value>(nowMs: number, work: (turn: Turn) => Value) => Value;

export function turnsOf(state: DurableObjectState, ending: (turn: Turn) => void): RunAt {
  let nowMs = 0;
  const turns = new Turns(state, { now: () => nowMs }, { ending, ended: () => {} });
  return (atMs, work) => {
    nowMs = atMs;
    return turns.run(work);
  };
}
