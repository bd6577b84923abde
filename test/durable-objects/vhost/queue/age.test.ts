/** The alarm enforces the maximum age of messages, whether or not the queue has consumers [C-6.4]. */
import { runDurableObjectAlarm } from 'cloudflare:test';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { hand, numbers } from '#workerd/outbox-events.ts';
import { breakWrites, publishOf, storedMessages, vhostRows } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { DAY, HOUR, passVhostTime, vhostAlarmAt } from '#workerd/site-clock.ts';
import { type Key, vhostOf } from '#workerd/world.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] });
});

interface Left {
  messages: number;
  dropped: number;
}

/** The stored messages, and the counts of dropped ones, over all queues. */
async function left(key: Key): Promise<Left> {
  const [row] = await vhostRows<{ dropped: number }>(
    key,
    'SELECT coalesce(sum(dropped_count), 0) AS dropped FROM queue',
  );
  return { messages: await storedMessages(key), dropped: row?.dropped ?? 0 };
}

describe('in a queue without consumers', () => {
  it.each([
    ['an acknowledgement', 'ack', 7 * DAY],
    ['an alarm', 'alarm', 7 * DAY],
    ['an execution', 'execution', 7 * DAY],
    ['telemetry', 'telemetry', DAY],
  ] as const)('%s is dropped and counted when it is too old [C-6.4]', async (_, kind, ageMs) => {
    const { key, partner } = await setScene({ partner: 'connected', events: { count: 3, kind } });
    partner.link.socket.close();
    await passVhostTime(key, ageMs - HOUR);
    const before = await left(key);
    expect(before).toEqual({ messages: 3, dropped: 0 });
    await passVhostTime(key, 2 * HOUR);
    expect(await left(key)).toEqual({ messages: 0, dropped: 3 });
  });

  it('a dead letter is dropped seven days after it became one [C-6.4]', async () => {
    const { key, partner } = await setScene({ partner: 'connected' });
    await partner.ask(publishOf(partner.routingKey('mode'), 'not JSON'));
    partner.link.socket.close();
    await passVhostTime(key, 7 * DAY - HOUR);
    expect(await left(key)).toMatchObject({ messages: 1 });
    await passVhostTime(key, 2 * HOUR);
    expect(await left(key)).toMatchObject({ messages: 0 });
  });

  it('old messages are dropped and counted although the object slept all the time [C-6.4]', async () => {
    const { key, siteId, leave } = await setScene({ partner: 'connected', events: 2 });
    await hand(key, siteId, 3, 2, { kind: 'telemetry' });
    await leave();
    await passVhostTime(key, 8 * DAY);
    expect(await left(key)).toEqual({ messages: 0, dropped: 4 });
  });

  it('only old messages are dropped; younger ones stay and are delivered [C-6.4]', async () => {
    const { key, siteId, partner, connect } = await setScene({ partner: 'connected', events: 2 });
    partner.link.socket.close();
    await passVhostTime(key, 4 * DAY);
    await hand(key, siteId, 3, 2);
    await passVhostTime(key, 4 * DAY);
    expect(await left(key)).toMatchObject({ messages: 2, dropped: 2 });
    const again = await connect();
    expect(await again.readyCount('event.status')).toBe(2);
    await again.consume('event.status');
    await again.delivered(2);
    expect(numbers(again)).toEqual([3, 4]);
  });
});

describe('a message that was delivered and is not acknowledged', () => {
  it('stays leased while the client is connected, however old it gets [C-6.4]', async () => {
    const { key, partner, held } = await setScene({ held: { count: 2, prefetch: 1 } });
    for (let passed = 0; passed < 8 * DAY; passed += 12 * HOUR) {
      vi.setSystemTime(Date.now() + 12 * HOUR);
      await partner.quiet();
      await runDurableObjectAlarm(vhostOf(key.id));
    }
    expect(await partner.readyCount('event.status')).toBe(0);
    // The waiting one is dropped, the leased one is stored.
    expect(await left(key)).toEqual({ messages: 1, dropped: 1 });
    partner.settle('ack', held);
    await vi.waitFor(async () => expect(await left(key)).toEqual({ messages: 0, dropped: 1 }), 10_000);
    expect(partner.link.closed).toBeUndefined();
    expect(numbers(partner)).toEqual([1]);
  });
});

describe('the alarm for old messages', () => {
  it('does not run again within a second while a client has 600 old messages unacknowledged [C-6.4]', async () => {
    const { key, siteId, partner } = await setScene({ partner: 'connected' });
    const held = 600;
    for (let from = 1; from <= held; from += 200) await hand(key, siteId, from, 200);
    await partner.consume('event.status', { prefetch: held });
    await partner.delivered(held);
    await hand(key, siteId, held + 1, 5);
    vi.setSystemTime(Date.now() + 7 * DAY + 1);
    await partner.quiet();
    for (let runs = 0; runs < 10; runs++) await runDurableObjectAlarm(vhostOf(key.id));
    expect(await partner.readyCount('event.status')).toBe(0);
    expect(await vhostAlarmAt(key)).toBeGreaterThan(Date.now() + 1_000);
  });

  it('changes nothing if it cannot write, and drops the messages at a later alarm when it can [C-6.4]', async () => {
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    const { key, partner } = await setScene({ partner: 'connected', events: 5 });
    vi.setSystemTime(Date.now() + 7 * DAY + 1);
    await partner.quiet();
    const mend = await breakWrites(key, 'chunk', { writes: ['DELETE'] });
    await runDurableObjectAlarm(vhostOf(key.id));
    expect(await left(key)).toMatchObject({ messages: 5, dropped: 0 });
    await mend();
    expect(await partner.readyCount('event.status')).toBe(5);
    vi.setSystemTime(Date.now() + 61_000);
    await partner.quiet();
    await runDurableObjectAlarm(vhostOf(key.id));
    expect(await left(key)).toEqual({ messages: 0, dropped: 5 });
  });
});
