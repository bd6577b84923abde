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
  pass(ms: number): void;
}

async function onBench(work: (bench: Bench) => Promise<void>): Promise<void> {
  await runInDurableObject(siteOf(crypto.randomUUID()), async (_site, state) => {
    let now = 1_000_000;
    const reported: Counts[] = [];
    let call = Promise.withResolvers<void>();
    let background: Promise<void> = Promise.resolve();
    const counts = new OwnCounts({
      clock: { now: () => now },
      report: (given) => {
        reported.push(given);
        call = Promise.withResolvers();
        return call.promise;
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
    await work({ counts, turns, reported, answer, pass: (ms) => (now += ms) });
  });
}

it('counts are reported after their turn and write no row; counts made during a report are sent together in the next one', async () => {
  await onBench(async ({ counts, turns, reported, answer }) => {
    turns.run((turn) => {
      counts.add(turn, 'executions/FAILED');
      counts.add(turn, 'executions/FAILED', 2);
      counts.add(turn, 'alarms/METER_STALE', 0);
    });
    expect(reported).toEqual([{ 'executions/FAILED': 3 }]);
    for (let time = 0; time < 5; time++) turns.run((turn) => counts.add(turn, 'alarms/METER_STALE'));
    expect(reported).toHaveLength(1);
    await answer();
    expect(reported.slice(1)).toEqual([{ 'alarms/METER_STALE': 5 }]);
    await answer();
    turns.run(() => {});
    expect([reported.length, turns.rowsWritten]).toEqual([2, 0]);
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
