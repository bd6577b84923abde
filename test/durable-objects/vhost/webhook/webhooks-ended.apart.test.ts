/** When nothing is posted to a webhook: its organization is suspended, its key has ended, or it is deleted or moved. */
import { describe, expect, it } from 'vitest';
import { runSql } from '#workerd/d1.ts';
import { hand, range } from '#workerd/outbox-events.ts';
import { vhostRows } from '#workerd/partner.ts';
import { PostReceiver } from '#workerd/post-receiver.ts';
import { changeAndNotifyVhost } from '#workerd/registry-changes.ts';
import { setScene } from '#workerd/scene.ts';
import {
  addHook,
  alarmAt,
  changeHook,
  DAY,
  deleteHook,
  evict,
  HOUR,
  type HookScene,
  MINUTE,
  passTime,
  quiet,
  settle,
  stateOf,
  stopTime,
  until,
} from '#workerd/webhook-scenes.ts';
import { createOrganization, vhostOf } from '#workerd/world.ts';

stopTime();

/** Suspends the organization, or ends that, and reports it to the Vhost. */
async function suspend({ organization, key }: HookScene, isSuspended: boolean): Promise<void> {
  const value = isSuspended ? Date.now() : null;
  await runSql('UPDATE organizations SET suspended_at_ms = ? WHERE id = ?', value, organization.id);
  await changeAndNotifyVhost(organization, key.id);
}

/** The rows of the Vhost's tables of webhooks. */
async function rowsOf({ key }: HookScene): Promise<unknown[]> {
  const ids = 'SELECT id FROM webhook UNION ALL SELECT webhook_id FROM webhook_attempts';
  return (await vhostRows<{ id: string }>(key, ids)).map(({ id }) => id);
}

describe('the webhook of a suspended organization', () => {
  it('gets no post, and no alarm; after the suspension it gets all events [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'enabled' });
    await hand(key, siteId, 1, 1);
    await passTime(scene, MINUTE);
    await suspend(scene, true);
    await hand(key, siteId, 2, 30);
    await passTime(scene, HOUR);
    expect(receiver.numbers).toEqual([1]);
    expect((await alarmAt(key)) ?? Number.POSITIVE_INFINITY).toBeGreaterThan(Date.now() + DAY);
    await suspend(scene, false);
    await until(key, () => receiver.delivered.length === 31);
    expect(receiver.delivered).toEqual(range(1, 31));
  });

  it('gets no post for what waits for its next attempt, or is behind attempts under way [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'trusted' });
    receiver.hold();
    await hand(key, siteId, 1, 20);
    await quiet(scene);
    await suspend(scene, true);
    await receiver.release(key);
    await passTime(scene, HOUR);
    expect(receiver.numbers).toEqual(range(1, 5));
    receiver.answerWith(200);
    await evict(scene);
    await suspend(scene, false);
    await until(key, () => receiver.delivered.length === 20);
    expect(receiver.delivered).toEqual(range(1, 20));
  });
});

describe('the webhook of a revoked key', () => {
  it('gets no further post, and leaves no row [C-5.6]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'enabled' });
    await hand(key, siteId, 1, 50);
    await settle(scene);
    expect((await rowsOf(scene)).length).toBeGreaterThan(1);
    receiver.hold();
    await hand(key, siteId, 51, 30);
    await quiet(scene);
    const count = receiver.posts.length;
    await vhostOf(key.id).revoke();
    expect(await rowsOf(scene)).toEqual([]);
    await receiver.release(key);
    receiver.answerWith(200);
    await passTime(scene, HOUR);
    expect(await hand(key, siteId, 81, 1)).toMatchObject({ gone: true });
    await quiet(scene);
    expect([receiver.posts.length, await rowsOf(scene)]).toEqual([count, []]);
    expect(await vhostOf(key.id).askWebhook(scene.id, { kind: 'enable' })).toEqual({ refused: 'ended' });
    expect(await alarmAt(key)).toBeNull();
  });

  it('gets no further post either if the key has expired [C-5.6]', async () => {
    const organization = await createOrganization();
    const scene = await setScene({
      organization,
      webhook: 'enabled',
      key: { expiresAtMs: Date.now() + HOUR },
    });
    const { key, siteId, receiver } = scene;
    receiver.answerWith(500);
    await hand(key, siteId, 1, 3);
    await passTime(scene, HOUR);
    const count = receiver.posts.length;
    receiver.answerWith(200);
    await passTime(scene, DAY);
    expect([receiver.posts.length, await rowsOf(scene)]).toEqual([count, []]);
  });
});

describe('a deleted webhook', () => {
  it('gets no further post, and its rows are gone; those of others stay [C-12.4]', async () => {
    const { scene, key, siteId, receiver, organization } = await setScene({ webhook: 'enabled' });
    const other = new PostReceiver();
    const { id: otherId } = await addHook(organization, key, { url: other.url });
    await hand(key, siteId, 1, 50);
    await settle(scene);
    receiver.hold();
    await hand(key, siteId, 51, 20);
    await quiet(scene);
    const count = receiver.posts.length;
    await deleteHook(scene);
    await receiver.release(key);
    receiver.answerWith(200);
    await hand(key, siteId, 71, 3);
    await passTime(scene, HOUR);
    expect(receiver.posts).toHaveLength(count);
    expect(other.delivered).toEqual(range(1, 73));
    expect(new Set(await rowsOf(scene))).toEqual(new Set([otherId]));
    expect(await vhostOf(key.id).askWebhook(scene.id, { kind: 'state' })).toEqual({ refused: 'absent' });
  });

  it('is not there after an eviction [C-12.4]', async () => {
    const scene = await setScene({ webhook: 'enabled' });
    await deleteHook(scene);
    await evict(scene);
    await hand(scene.key, scene.siteId, 1, 3);
    await passTime(scene, HOUR);
    expect([scene.receiver.numbers, await rowsOf(scene)]).toEqual([[], []]);
  });
});

describe('a webhook with a new URL', () => {
  it('asks the new receiver first, which then gets what was under way at the one before [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'trusted' });
    receiver.hold();
    await hand(key, siteId, 1, 10);
    await quiet(scene);
    const next = new PostReceiver();
    await changeHook(scene, { url: next.url });
    await until(key, () => next.posts.length > 0);
    expect(next.posts[0]?.type).toBe('webhook.verify');
    await receiver.release(key);
    await until(key, () => next.delivered.length === 10);
    await passTime({ key, receiver: next }, HOUR);
    expect(next.delivered.toSorted((a, b) => a - b)).toEqual(range(1, 10));
    expect(receiver.numbers).toEqual(range(1, 5));
    expect(await stateOf(scene)).toMatchObject({ status: 'ENABLED' });
  });

  it('while five attempts are under way and only the types change loses no event [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'trusted' });
    receiver.hold();
    await hand(key, siteId, 1, 20);
    await quiet(scene);
    await changeHook(scene, { types: ['ack'] });
    receiver.answerWith(200);
    await receiver.release(key);
    await passTime(scene, MINUTE);
    expect(receiver.delivered).toEqual(range(1, 20));
  });
});
