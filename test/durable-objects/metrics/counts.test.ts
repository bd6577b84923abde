/**
 * The counters of one object: they are reported after the turn, one call at a time, without the counts of
 * undone steps [rule 3].
 */
import { runInDurableObject } from 'cloudflare:test';
import { expect, it, vi } from 'vitest';
import { siteOf } from '#workerd/world.ts';
import { OwnCounts } from '../../../durable-objects/metrics/counts.ts';
import type { Counts } from '../../../durable-objects/metrics/families.ts';
import { Turns } from '../../../durable-objects/object/turn.ts';

interface Bench {
  counts: OwnCounts;
  turns: Turns;
  reported: Counts[];
  /** Answers the call in progress. */
  answer(error?: Error): Promise<void>;
  /** The waits that were asked for, in ms; `gathered` ends the last one. */
  waits: number[];
  gathered(): Promise<void>;
  pass(ms: number): void;
}

async function onBench(work: (bench: Bench) => Promise<void>): Promise<void> {
  await runInDurableObject(siteOf(crypto.randomUUID()), async (_site, state) => {
    let now = 1_000_000;
    const reported: Counts[] = [];
    let call = Promise.withResolvers<void>();
    let background: Promise<void> = Promise.resolve();
    const waits: number[] = [];
    let wait = Promise.withResolvers<void>();
    const counts = new OwnCounts({
      clock: { now: () => now },
      report: (given) => {
        reported.push(given);
        call = Promise.withResolvers();
        return call.promise;
      },
      wait: (ms) => {
        waits.push(ms);
        wait = Promise.withResolvers();
        return wait.promise;
      },
      keepAlive: (one) => {
        background = one;
      },
    });
    const turns = new Turns(state, { now: () => now }, { ending: () => {}, ended: () => counts.report() });
    const answer = async (error?: Error) => {
      if (error) call.reject(error);
      else call.resolve();
      await scheduler.wait(0);
      await Promise.race([background, scheduler.wait(0)]);
    };
    const gathered = async () => {
      now += waits.at(-1) ?? 0;
      wait.resolve();
      await scheduler.wait(0);
    };
    await work({ counts, turns, reported, answer, waits, gathered, pass: (ms) => (now += ms) });
  });
}

it('counts are reported after their turn and write no row; those of the next two seconds are sent together', async () => {
  await onBench(async ({ counts, turns, reported, answer, waits, gathered, pass }) => {
    turns.run((turn) => {
      counts.add(turn, 'executions/FAILED');
      counts.add(turn, 'executions/FAILED', 2);
      counts.add(turn, 'alarms/METER_STALE', 0);
    });
    expect(reported).toEqual([{ 'executions/FAILED': 3 }]);
    for (let time = 0; time < 5; time++) turns.run((turn) => counts.add(turn, 'alarms/METER_STALE'));
    expect(reported).toHaveLength(1);
    pass(500);
    await answer();
    expect([reported.length, waits]).toEqual([1, [1_500]]);
    turns.run((turn) => counts.add(turn, 'alarms/METER_STALE'));
    await gathered();
    expect(reported.slice(1)).toEqual([{ 'alarms/METER_STALE': 6 }]);
    await answer();
    turns.run(() => {});
    expect([reported.length, waits.length, turns.rowsWritten]).toEqual([2, 1, 0]);
    pass(2_000);
    turns.run((turn) => counts.add(turn, 'executions/FAILED'));
    expect([reported.length, waits.length]).toEqual([3, 1]);
    await answer();
  });
});

it('a step that is undone counts nothing', async () => {
  vi.spyOn(console, 'error').mockReturnValue(undefined);
  await onBench(async ({ counts, turns, reported }) => {
    turns.run((turn) => {
      counts.add(turn, 'executions/FAILED');
      turn.step(() => {
        counts.add(turn, 'executions/FAILED', 5);
        throw new Error('not to stand');
      });
    });
    expect(reported).toEqual([{ 'executions/FAILED': 1 }]);
  });
});

it('counts of a failed report are sent again with later counts, after a minute at the earliest', async () => {
  vi.spyOn(console, 'warn').mockReturnValue(undefined);
  await onBench(async ({ counts, turns, reported, answer, pass }) => {
    turns.run((turn) => counts.add(turn, 'executions/FAILED'));
    await answer(new Error('away'));
    turns.run((turn) => counts.add(turn, 'executions/COMPLETED'));
    expect(reported).toHaveLength(1);
    pass(60_000);
    turns.run(() => {});
    expect(reported.slice(1)).toEqual([{ 'executions/FAILED': 1, 'executions/COMPLETED': 1 }]);
    await answer();
  });
});
