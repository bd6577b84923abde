/** Webhooks of a key in its object: which events are posted, how, in which order, and when again after a failure. */
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { hand, range } from '#workerd/outbox-events.ts';
import { isSigned, PostReceiver } from '#workerd/post-receiver.ts';
import { setScene } from '#workerd/scene.ts';
import {
  addHook,
  ask,
  changeHook,
  DAY,
  HOUR,
  type HookScene,
  MINUTE,
  passTime,
  quiet,
  SECOND,
  START_MS,
  stateOf,
  stopTime,
  unlimited,
  until,
} from '#workerd/webhook-scenes.ts';
import { vhostOf } from '#workerd/world.ts';
import { newSecret, sealSecret } from '../../../../worker/lifecycle/webhook.ts';

stopTime();

/** The events of the journal: their bytes, and their ids. */
async function journalOf({ key }: HookScene): Promise<{ event: string; messageId: string }[]> {
  const answer = await vhostOf(key.id).readJournal({ after: 0, limit: 500 });
  if ('refused' in answer) throw new Error(answer.refused);
  const items = JSON.parse(`[${answer.items}]`) as { event: string }[];
  return items.map(({ event }) => ({ event, messageId: JSON.parse(event).messageId }));
}

describe('a delivered event of a command', () => {
  it('is noted for the timeline of the command, with the webhook [C-13.2]', async () => {
    const { scene, key, siteId, receiver, id } = await setScene({ webhook: 'enabled' });
    const madeAtMs = Date.now();
    await hand(key, siteId, 1, 1);
    await hand(key, siteId, 2, 1, { kind: 'alarm' });
    await passTime(scene, 5 * SECOND);
    const idOf = (kind: string) => receiver.posts.find(({ type }) => type === kind)?.id ?? '';
    const [ack, alarm] = [idOf('ack'), idOf('alarm')];
    const found = await vhostOf(key.id).findEvents(
      [ack, alarm].map((messageId) => ({ messageId, madeAtMs })),
    );
    const confirmed = [{ atMs: expect.any(Number), by: `webhook ${id}` }];
    expect(found).toEqual([
      { messageId: ack, storedAtMs: madeAtMs, confirmed },
      { messageId: alarm, storedAtMs: madeAtMs, confirmed: [] },
    ]);
  });
});

describe('the first message to a receiver', () => {
  it('is `webhook.verify`, and no event follows until it is answered with 2xx [C-12.4]', async () => {
    const receiver = new PostReceiver();
    receiver.hold();
    const { scene, key, siteId, id } = await setScene({ webhook: { receiver, isPending: true } });
    await hand(key, siteId, 1, 3);
    await quiet(scene);
    expect(receiver.posts.map(({ type }) => type)).toEqual(['webhook.verify']);
    expect(JSON.parse(receiver.posts[0]?.data ?? '')).toEqual({
      webhookId: id,
      challenge: expect.stringMatching(/^[\w-]{43}$/),
    });
    expect(await stateOf(scene)).toMatchObject({ status: 'PENDING', reason: null });
    receiver.answerWith(200);
    await receiver.release(key);
    await until(key, () => receiver.delivered.length === 3);
    expect([receiver.numbers, receiver.faults]).toEqual([[1, 2, 3], []]);
    expect(await stateOf(scene)).toMatchObject({ status: 'ENABLED' });
  });

  it.each([301, 404, 500])(
    'is repeated when it is answered with %i, and no event follows [C-12.4]',
    async (status) => {
      const receiver = new PostReceiver();
      receiver.answerWith(status);
      const scene = await setScene({ webhook: { receiver, isPending: true } });
      await hand(scene.key, scene.siteId, 1, 3);
      await passTime(scene, 2 * MINUTE);
      expect(receiver.posts.map(({ type, atMs }) => [type, atMs - START_MS])).toEqual([
        ['webhook.verify', 0],
        ['webhook.verify', 5 * SECOND],
        ['webhook.verify', 65 * SECOND],
      ]);
      expect(new Set(receiver.posts.map(({ id }) => id)).size).toBe(3);
      receiver.answerWith(204);
      await passTime(scene, 5 * MINUTE);
      expect(receiver.numbers).toEqual([1, 2, 3]);
    },
  );
});

describe('the events of a webhook', () => {
  it('are posted in order and once, with the bytes of the journal and their messageId as id [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'enabled' });
    const kinds = ['ack', 'execution', 'alarm', 'telemetry'] as const;
    for (const [index, kind] of kinds.entries()) await hand(key, siteId, 1 + 5 * index, 5, { kind });
    await until(key, () => receiver.delivered.length === 20);
    await passTime(scene, HOUR);
    const journal = await journalOf(scene);
    expect(receiver.numbers).toEqual(range(1, 20));
    expect(receiver.events.map(({ data }) => data)).toEqual(journal.map(({ event }) => event));
    expect(receiver.events.map(({ id }) => id)).toEqual(journal.map(({ messageId }) => messageId));
    expect(receiver.events.map(({ type }) => type)).toEqual(kinds.flatMap((kind) => Array(5).fill(kind)));
    for (const { data, timestamp } of receiver.events) expect(timestamp).toBe(JSON.parse(data).timestamp);
    expect(receiver.faults).toEqual([]);
    expect(receiver.events[0]?.init).toMatchObject({ method: 'POST', redirect: 'manual' });
  });

  it('begin with the first event after the webhook was created [C-12.4]', async () => {
    const { scene: earlier, organization, key, siteId } = await setScene({ webhook: 'enabled' });
    await hand(key, siteId, 1, 3);
    vi.setSystemTime(Date.now() + 1);
    const receiver = new PostReceiver();
    await addHook(organization, key, { url: receiver.url });
    await hand(key, siteId, 4, 2);
    await until(key, () => receiver.delivered.length === 2);
    expect([receiver.numbers, earlier.receiver.numbers]).toEqual([
      [4, 5],
      [1, 2, 3, 4, 5],
    ]);
  });

  it('have at most five attempts under way, so that other webhooks have a place [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'trusted' });
    receiver.hold();
    await hand(key, siteId, 1, 30);
    await quiet(scene);
    expect(receiver.numbers).toEqual(range(1, 5));
    await receiver.release(key, 1);
    await quiet(scene);
    expect(receiver.numbers).toEqual(range(1, 6));
  });

  it('are only those of its types and sites [C-12.4]', async () => {
    const siteIds = [crypto.randomUUID(), crypto.randomUUID()];
    const { scene, key, receiver } = await setScene({ webhook: { types: ['ack', 'alarm'], siteIds } });
    const [first = '', second = ''] = siteIds;
    await hand(key, first, 1, 2, { kind: 'ack' });
    await hand(key, crypto.randomUUID(), 100, 3, { kind: 'ack' });
    await hand(key, second, 3, 1, { kind: 'alarm' });
    await hand(key, first, 101, 3, { kind: 'execution' });
    await hand(key, first, 104, 1, { kind: 'ack' });
    await until(key, () => receiver.delivered.length === 4);
    await quiet(scene);
    expect(receiver.numbers).toEqual([1, 2, 3, 104]);
  });

  it('are never those of plant B if the key is limited to plant A, whatever the webhook asks for [C-8.1]', async () => {
    const [a, b] = [crypto.randomUUID(), crypto.randomUUID()];
    const scene = await setScene({ key: { allowedPlantIds: [a] }, webhook: { siteIds: [a, b] } });
    for (const kind of ['ack', 'execution', 'alarm'] as const) await hand(scene.key, b, 1, 3, { kind });
    await hand(scene.key, a, 7, 1);
    await until(scene.key, () => scene.receiver.delivered.length === 1);
    await quiet(scene);
    expect(scene.receiver.numbers).toEqual([7]);
  });

  it('are all posted, even if they are more than one call may post, because an alarm goes on [C-12.4]', async () => {
    const scene = await setScene({ organization: await unlimited(), webhook: 'enabled' });
    await hand(scene.key, scene.siteId, 1, 1_100);
    await quiet(scene);
    expect(scene.receiver.delivered).toEqual(range(1, 500));
    await passTime(scene, SECOND);
    expect(scene.receiver.delivered).toEqual(range(1, 1_100));
  });
});

describe('a receiver that does not answer with 2xx', () => {
  it('for 90 s gets every event in order, each once with a 200 [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'trusted' });
    const beginMs = Date.now();
    receiver.answerWith(500);
    for (let second = 0; second < 9; second++) {
      await hand(key, siteId, 1 + 2 * second, 2);
      await passTime(scene, 10 * SECOND);
    }
    expect(new Set(receiver.numbers)).toEqual(new Set([1, 2]));
    receiver.answerWith(200);
    await passTime(scene, 5 * MINUTE);
    expect(receiver.delivered).toEqual(range(1, 18));
    const again = receiver.events.slice(2).map(({ atMs }) => atMs - beginMs);
    expect(again.slice(0, 3)).toEqual([5 * SECOND, 65 * SECOND, 365 * SECOND]);
  });

  it.each([429, 503])('but with %i is asked again when its Retry-After says [C-12.4]', async (status) => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'enabled' });
    receiver.answerWith(status, { 'retry-after': '7' });
    await hand(key, siteId, 1, 1);
    await passTime(scene, 7 * SECOND - 1);
    expect(receiver.numbers).toEqual([1]);
    receiver.answerWith(200);
    await passTime(scene, 1);
    expect(receiver.numbers).toEqual([1, 1]);
  });

  it('but with 500 is asked again by the schedule, whatever its Retry-After says [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'enabled' });
    receiver.answerWith(500, { 'retry-after': '7' });
    await hand(key, siteId, 1, 1);
    await passTime(scene, 5 * SECOND - 1);
    expect(receiver.numbers).toEqual([1]);
    await passTime(scene, 1);
    expect(receiver.numbers).toEqual([1, 1]);
  });

  it('within 20 s has failed, and the event is posted again [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'trusted' });
    receiver.hold();
    await hand(key, siteId, 1, 1);
    await passTime(scene, 20 * SECOND - 1);
    expect(await stateOf(scene)).toMatchObject({ delivery: { failures: 0 } });
    await passTime(scene, 1);
    expect(await stateOf(scene)).toMatchObject({ delivery: { failures: 1 } });
    receiver.answerWith(200);
    await passTime(scene, 5 * SECOND);
    expect(receiver.delivered).toEqual([1]);
    const { attempts } = await ask(scene, { kind: 'attempts' });
    expect(attempts.at(-2)).toMatchObject({
      status: null,
      durationMs: 20 * SECOND,
      error: expect.stringContaining('20 s'),
    });
  });
});

describe('the secrets of a webhook', () => {
  it('both sign for 24 h after a rotation, then only the new one [C-12.4]', async () => {
    const { scene, id, key, siteId, receiver, secret } = await setScene({ webhook: 'enabled' });
    const next = newSecret();
    await changeHook(scene, {
      secretSealed: sealSecret(env, id, next),
      previousSealed: sealSecret(env, id, secret),
      previousUntilMs: Date.now() + DAY,
    });
    await hand(key, siteId, 1, 1);
    await until(key, () => receiver.delivered.length === 1);
    await passTime(scene, DAY - 1);
    await hand(key, siteId, 2, 1);
    await until(key, () => receiver.delivered.length === 2);
    await passTime(scene, 1);
    await hand(key, siteId, 3, 1);
    await until(key, () => receiver.delivered.length === 3);
    const signed = receiver.events.map((post) =>
      [secret, next, newSecret()].map((one) => isSigned(post, one)),
    );
    expect(signed).toEqual([
      [true, true, false],
      [true, true, false],
      [false, true, false],
    ]);
  });
});

describe('recover', () => {
  it('posts the events since a time again with the same ids, and only those [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'enabled' });
    await hand(key, siteId, 1, 3);
    await passTime(scene, 10 * MINUTE);
    const sinceMs = Date.now();
    await hand(key, siteId, 4, 3);
    await passTime(scene, MINUTE);
    await hand(key, siteId, 7, 2);
    await passTime(scene, MINUTE);
    const before = receiver.events.slice();
    expect(receiver.numbers).toEqual(range(1, 8));
    const { delivery } = await ask(scene, { kind: 'recover', sinceMs });
    expect(delivery.deliveredUpTo).toBe(delivery.lastSequence - 5);
    await until(key, () => receiver.delivered.length === 13);
    await passTime(scene, MINUTE);
    const again = receiver.events.slice(8);
    expect(again.map(({ id, data }) => [id, data])).toEqual(
      before.slice(3).map(({ id, data }) => [id, data]),
    );
    expect(receiver.faults).toEqual([]);
  });

  it('since a time after the last event posts nothing [C-12.4]', async () => {
    const scene = await setScene({ webhook: 'enabled' });
    await hand(scene.key, scene.siteId, 1, 3);
    await passTime(scene, MINUTE);
    await ask(scene, { kind: 'recover', sinceMs: Date.now() });
    await passTime(scene, MINUTE);
    expect(scene.receiver.numbers).toEqual([1, 2, 3]);
  });
});
