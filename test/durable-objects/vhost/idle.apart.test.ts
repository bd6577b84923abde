/**
 * A vhost that has nothing to do is idle: no timer survives a handler, the alarm is set only for due work,
 * and the object sleeps.
 */
import { evictDurableObject } from 'cloudflare:test';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { hand, markedNumbers, numbers, passingEvents, range } from '#workerd/outbox-events.ts';
import { publishOf, vhostRows } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { MINUTE, passVhostTime, SECOND, vhostAlarmAt } from '#workerd/site-clock.ts';
import { vhostOf } from '#workerd/world.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] });
});

/** Timers of running objects, each with its delay. */
function timersOfObjects(): Map<unknown, number | undefined> {
  const running = new Map<unknown, number | undefined>();
  const { setTimeout: start, clearTimeout: stop } = globalThis;
  vi.spyOn(globalThis, 'setTimeout').mockImplementation(((callback: () => void, ms?: number) => {
    const frames = new Error('who asks').stack?.split('\n') ?? [];
    const isOurs = frames.some((frame) => frame.includes('/durable-objects/') && !frame.includes('/test/'));
    const id = start(() => {
      running.delete(id);
      callback();
    }, ms);
    if (isOurs) running.set(id, ms);
    return id;
  }) as typeof setTimeout);
  vi.spyOn(globalThis, 'clearTimeout').mockImplementation((id) => {
    running.delete(id);
    stop(id as Parameters<typeof stop>[0]);
  });
  return running;
}

describe('no timer of a vhost runs', () => {
  it('after telemetry arrives for which there is no client (rule 10)', async () => {
    const { key, siteId } = await setScene({ partner: 'connected' });
    const timers = timersOfObjects();
    expect(await vhostOf(key.id).receivePassing(siteId, passingEvents(1, 10))).toBe('taken');
    expect([...timers.values()]).toEqual([]);
  });

  it('a moment after a client acknowledged some telemetry and holds the rest (rule 10)', async () => {
    const { key, siteId, partner } = await setScene({ partner: 'connected' });
    const timers = timersOfObjects();
    await partner.consume('event.telemetry', { prefetch: 5 });
    await hand(key, siteId, 1, 10, { kind: 'telemetry' });
    const held = await partner.delivered(5);
    partner.settle('ack', held.slice(0, 3));
    await partner.delivered(8);
    // Each timer is part of the handler that started it and ends within a second.
    await vi.waitFor(() => expect([...timers.values()]).toEqual([]), 5_000);
  });

  it('after acknowledgements and credit that change only memory (rule 10)', async () => {
    const { partner, held } = await setScene({ held: 10 });
    const timers = timersOfObjects();
    partner.settle('ack', held.slice(0, 5));
    partner.link.send({ kind: 'credit', drainedBytes: 10_000 });
    await partner.quiet();
    expect([...timers.values()]).toEqual([]);
  });

  it('after publishes: stored, refused, malformed, or for an unknown site (rule 10)', async () => {
    const { partner, plant } = await setScene({ plant: true, partner: 'connected' });
    const timers = timersOfObjects();
    await partner.askAll(
      partner.command(plant.id, 'mode', { mode: 'STANDARD' }),
      partner.command(crypto.randomUUID(), 'mode', { mode: 'STANDARD' }),
      publishOf(partner.routingKey('mode'), 'not JSON'),
      publishOf('nobody.command.mode', '{}'),
    );
    await vi.waitFor(() => expect([...timers.values()]).toEqual([]));
  });
});

describe('a moment after a handler', () => {
  it('leased telemetry is stored and no timer is left, so a crash does not lose it [C-6.4]', async () => {
    const { key, siteId, partner, restart } = await setScene({ partner: 'connected' });
    const timers = timersOfObjects();
    await partner.consume('event.telemetry');
    await hand(key, siteId, 1, 5, { kind: 'telemetry' });
    await partner.delivered(5);
    // Most clients acknowledge in milliseconds, so the handler waits a moment for the acknowledgement.
    for (const ms of timers.values()) expect(ms).toBeLessThanOrEqual(SECOND);
    await vi.waitFor(
      async () => {
        expect(await vhostRows(key, 'SELECT 1 AS one FROM chunk')).toHaveLength(1);
        expect([...timers.values()]).toEqual([]);
      },
      { timeout: 3 * SECOND },
    );
    const again = await restart();
    await again.consume('event.telemetry');
    await again.delivered(5);
    expect(markedNumbers(again)).toEqual(['1*', '2*', '3*', '4*', '5*']);
  });

  it('an acknowledgement is stored, so that the message is not delivered again after a crash [C-6.4]', async () => {
    const { key, siteId, partner, restart } = await setScene({ partner: 'connected' });
    for (const [index, kind] of (['ack', 'telemetry'] as const).entries()) {
      await hand(key, siteId, 1 + index * 10, 4, { kind });
    }
    await partner.consume('event.status');
    await partner.consume('event.telemetry');
    await passVhostTime(key, 2 * SECOND);
    partner.settle('ack', await partner.delivered(8));
    await partner.quiet();
    await passVhostTime(key, 2 * SECOND);
    const again = await restart();
    expect(await again.readyCount('event.status')).toBe(0);
    expect(await again.readyCount('event.telemetry')).toBe(0);
  });
});

describe('the alarm of a vhost', () => {
  it('runs at most twice in ten seconds while a client acknowledges each message at once (rule 10)', async () => {
    const { key, siteId, partner } = await setScene({ consumes: 'event.telemetry' });
    for (let round = 0; round < 6; round++) {
      await hand(key, siteId, 1 + round, 1, { kind: 'telemetry' });
      partner.settle('ack', (await partner.delivered(round + 1)).slice(-1));
      // A sign of life, so that the client does not count as silent.
      await partner.quiet();
      // Messages that were settled at once leave at most one alarm a second later, which finds nothing to do.
      expect(await passVhostTime(key, 10 * SECOND)).toBeLessThanOrEqual(2);
    }
    expect(numbers(partner)).toEqual(range(1, 6));
    expect(await vhostRows(key, 'SELECT 1 AS one FROM chunk')).toEqual([]);
  });

  it('is not set when no client is connected and nothing waits (rule 10)', async () => {
    const { key, partner } = await setScene({ partner: 'connected' });
    partner.link.socket.close(1000, 'bye');
    for (let minute = 0; minute < 3; minute++) await passVhostTime(key, MINUTE);
    expect(await vhostAlarmAt(key)).toBeNull();
  });
});

describe('a vhost', () => {
  it('can sleep although telemetry waits or is leased and an acknowledgement just arrived (rule 8)', async () => {
    vi.useRealTimers();
    const timers = timersOfObjects();
    const { key, siteId, partner } = await setScene({ consumes: { queue: 'event.telemetry', prefetch: 2 } });
    await partner.consume('event.status');
    await hand(key, siteId, 1, 4, { kind: 'telemetry' });
    await hand(key, siteId, 5, 2);
    const all = await partner.delivered(4);
    partner.settle('ack', all.slice(0, 1));
    await partner.quiet();
    // The runtime waits for running work before it evicts an object.
    await evictDurableObject(vhostOf(key.id));
    expect([...timers.values()]).toEqual([]);
    await partner.quiet();
    expect(partner.link.closed).toBeUndefined();
    expect(await partner.readyCount('event.telemetry')).toBeLessThanOrEqual(2);
  });
});
