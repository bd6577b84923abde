/**
 * The counters of one object: they are reported after a turn or with an alarm, one call at a time, without the
 * counts of undone steps [rule 3].
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
  /** Time until the counts are due; undefined if they are not. */
  dueInMs(): number | undefined;
  /** How often the counts said that their due time has changed. */
  changes(): number;
}

async function onBench(work: (bench: Bench) => Promise<void>): Promise<void> {
  await runInDurableObject(siteOf(crypto.randomUUID()), async (_site, state) => {
    let now = 1_000_000;
    let changes = 0;
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
      calls: { until: (_deadlineMs, work) => Promise.resolve(work) },
      keepAlive: (one) => {
        background = one;
      },
      changed: () => {
        changes += 1;
      },
    });
    const turns = new Turns(state, { now: () => now }, { ending: () => {}, ended: () => counts.report() });
    const dueInMs = () => {
      const dueMs = counts.dueMs();
      return dueMs === undefined ? undefined : dueMs - now;
    };
    const answer = async (error?: Error) => {
      if (error) call.reject(error);
      else call.resolve();
      await scheduler.wait(0);
      await Promise.race([background, scheduler.wait(0)]);
    };
    const pass = (ms: number) => (now += ms);
    await work({ counts, turns, reported, answer, pass, dueInMs, changes: () => changes });
  });
}

it('the first counts are reported after their turn and write no row; those of the next two seconds wait for a later turn', async () => {
  await onBench(async ({ counts, turns, reported, answer, pass, dueInMs }) => {
    turns.run((turn) => {
      counts.add(turn, 'executions/FAILED');
      counts.add(turn, 'executions/FAILED', 2);
      counts.add(turn, 'alarms/METER_STALE', 0);
    });
    expect([reported, dueInMs()]).toEqual([[{ 'executions/FAILED': 3 }], undefined]);
    for (let time = 0; time < 5; time++) turns.run((turn) => counts.add(turn, 'alarms/METER_STALE'));
    await answer();
    pass(1_999);
    turns.run((turn) => counts.add(turn, 'alarms/METER_STALE'));
    expect(reported).toHaveLength(1);
    pass(1);
    turns.run((turn) => counts.add(turn, 'alarms/METER_STALE'));
    expect(reported.slice(1)).toEqual([{ 'alarms/METER_STALE': 7 }]);
    await answer();
    turns.run(() => {});
    expect([reported.length, turns.rowsWritten, dueInMs()]).toEqual([2, 0, undefined]);
  });
});

it('counts that wait leave with the next alarm, at the latest five seconds after they were added', async () => {
  await onBench(async ({ counts, turns, reported, answer, pass, dueInMs, changes }) => {
    turns.run((turn) => counts.add(turn, 'executions/FAILED'));
    pass(500);
    turns.run((turn) => counts.add(turn, 'executions/COMPLETED'));
    expect([dueInMs(), changes()]).toEqual([undefined, 0]);
    await answer();
    expect([dueInMs(), changes()]).toEqual([5_000, 1]);
    turns.run((turn) => counts.ride(turn));
    expect(reported.slice(1)).toEqual([{ 'executions/COMPLETED': 1 }]);
    await answer();
    turns.run((turn) => counts.add(turn, 'alarms/METER_STALE'));
    pass(1_000);
    expect(dueInMs()).toBe(4_000);
    pass(4_000);
    turns.run((turn) => counts.run(turn));
    expect(reported.slice(2)).toEqual([{ 'alarms/METER_STALE': 1 }]);
    await answer();
    expect([dueInMs(), changes()]).toEqual([undefined, 1]);
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
  await onBench(async ({ counts, turns, reported, answer, pass, dueInMs }) => {
    turns.run((turn) => counts.add(turn, 'executions/FAILED'));
    await answer(new Error('away'));
    turns.run((turn) => counts.add(turn, 'executions/COMPLETED'));
    expect([reported.length, dueInMs()]).toEqual([1, 60_000]);
    pass(59_999);
    turns.run((turn) => counts.ride(turn));
    expect(reported).toHaveLength(1);
    pass(1);
    turns.run(() => {});
    expect(reported.slice(1)).toEqual([{ 'executions/FAILED': 1, 'executions/COMPLETED': 1 }]);
    await answer();
  });
});
