/** The ceilings of what webhooks post: over them the cursors wait, and nothing is lost [C-15.3]. */
import { describe, expect, it } from 'vitest';
import { hand, range } from '#workerd/outbox-events.ts';
import { PostReceiver } from '#workerd/post-receiver.ts';
import { setScene } from '#workerd/scene.ts';
import {
  addHook,
  ask,
  evict,
  type HookScene,
  MINUTE,
  organizationWith,
  passTime,
  SECOND,
  settle,
  stateOf,
  stopTime,
  trust,
  until,
} from '#workerd/webhook-scenes.ts';
import type { Organization } from '#workerd/world.ts';

stopTime();

type Options = { receiver?: PostReceiver };

/** A webhook that may post in parallel, and that has posted nothing in this minute. */
async function openLimited(ceilings: object, options: Options = {}): Promise<HookScene> {
  return await openOther(await organizationWith(ceilings), options.receiver);
}

/** The same for a new key of an organization. The timers of two objects must not run together, so it leaves none. */
async function openOther(organization: Organization, receiver = new PostReceiver()): Promise<HookScene> {
  const scene = await setScene({ organization, webhook: { receiver } });
  await trust(scene);
  await passTime(scene, MINUTE);
  scene.receiver.posts.length = 0;
  return scene;
}

/** A receiver on this host, with a path of its own. */
function receiverOn(host: string): PostReceiver {
  return new PostReceiver(`https://${host}/${crypto.randomUUID()}`);
}

describe('the posts of an organization', () => {
  it('wait for the next minute over its ceiling, in order, and none is lost or counts as a failure [C-15.3]', async () => {
    const scene = await openLimited({ webhookPostsPerMinute: 10 });
    const { key, siteId, receiver } = scene;
    await hand(key, siteId, 1, 25);
    await passTime(scene, 30 * SECOND);
    expect(receiver.numbers).toEqual(range(1, 10));
    expect(await stateOf(scene)).toMatchObject({
      status: 'ENABLED',
      delivery: { failures: 0, failingSince: null, missedBefore: null },
    });
    await passTime(scene, 30 * SECOND);
    expect(receiver.numbers).toEqual(range(1, 20));
    await passTime(scene, MINUTE);
    expect(receiver.delivered).toEqual(range(1, 25));
    expect(receiver.faults).toEqual([]);
  });

  it('say that they wait, until when and for which ceiling, and say so no longer afterwards [C-15.3]', async () => {
    const scene = await openLimited({ webhookPostsPerMinute: 10 });
    const { key, siteId } = scene;
    expect(await stateOf(scene)).toMatchObject({ delivery: { held: null } });
    const beginMs = Date.now();
    await hand(key, siteId, 1, 11);
    await passTime(scene, 30 * SECOND);
    const untilIso = new Date(beginMs + MINUTE).toISOString();
    const held = { by: 'ORGANIZATION', perMinute: 10, until: untilIso };
    expect(await ask(scene, { kind: 'attempts' })).toMatchObject({ delivery: { held } });
    await passTime(scene, MINUTE);
    expect(await ask(scene, { kind: 'attempts' })).toMatchObject({ delivery: { held: null } });
  });

  it('share the ceiling between its keys [C-15.3]', async () => {
    const scene = await openLimited({ webhookPostsPerMinute: 12 });
    await settle(scene);
    const other = await openOther(scene.organization);
    await hand(scene.key, scene.siteId, 1, 6);
    await settle(scene);
    await hand(other.key, other.siteId, 1, 20);
    await passTime(other, 30 * SECOND);
    expect(scene.receiver.numbers).toEqual(range(1, 6));
    expect(other.receiver.numbers).toEqual(range(1, 6));
    await passTime(other, 2 * MINUTE);
    expect(other.receiver.delivered).toEqual(range(1, 20));
  });

  it('count webhook.verify, webhook.test and resent events, too [C-15.3]', async () => {
    const scene = await openLimited({ webhookPostsPerMinute: 5 });
    const { key, siteId, receiver } = scene;
    for (const _ of range(1, 3)) await ask(scene, { kind: 'test' });
    await hand(key, siteId, 1, 4);
    await passTime(scene, 30 * SECOND);
    expect(receiver.posts).toHaveLength(5);
    await passTime(scene, 30 * SECOND);
    expect(receiver.delivered).toEqual(range(1, 4));
  });

  it('wait again after the object has left memory, and follow at their time [C-15.3]', async () => {
    const scene = await openLimited({ webhookPostsPerMinute: 10 });
    const { key, siteId, receiver } = scene;
    await hand(key, siteId, 1, 15);
    await passTime(scene, 20 * SECOND);
    await evict(scene);
    await passTime(scene, 20 * SECOND);
    expect(receiver.numbers).toEqual(range(1, 10));
    await passTime(scene, MINUTE);
    expect(receiver.delivered).toEqual(range(1, 15));
  });

  it('have no ceiling by default that 600 events of one host reach in a minute [C-15.3]', async () => {
    const scene = await openLimited({});
    const { key, siteId, receiver } = scene;
    await hand(key, siteId, 1, 700);
    await passTime(scene, 30 * SECOND);
    expect(receiver.numbers).toEqual(range(1, 600));
    await passTime(scene, MINUTE);
    expect(receiver.delivered).toEqual(range(1, 700));
  });
});

describe('the posts to a host name', () => {
  it('wait over its ceiling, and those to other hosts go on [C-15.3]', async () => {
    const host = `${crypto.randomUUID()}.example.com`;
    const ceilings = { webhookHostPostsPerMinute: 8 };
    const first = await openLimited(ceilings, { receiver: receiverOn(host) });
    await settle(first);
    const scene = await openOther(await organizationWith(ceilings), receiverOn(host));
    const other = new PostReceiver();
    await addHook(scene.organization, scene.key, { url: other.url });
    await until(scene.key, () => other.posts.length === 1);
    await passTime(scene, MINUTE);
    await hand(first.key, first.siteId, 1, 6);
    await settle(first);
    await hand(scene.key, scene.siteId, 1, 8);
    await passTime(scene, 30 * SECOND);
    expect([scene.receiver.numbers, other.delivered]).toEqual([range(1, 2), range(1, 8)]);
    expect(await stateOf(scene)).toMatchObject({ delivery: { held: { by: 'HOST', perMinute: 8 } } });
  });

  it('count together for two organizations, two paths and two ways to write it [C-15.3]', async () => {
    const host = `${crypto.randomUUID()}.example.com`;
    const ceilings = { webhookHostPostsPerMinute: 8 };
    const first = await openLimited(ceilings, { receiver: receiverOn(host) });
    await settle(first);
    const second = await openOther(
      await organizationWith(ceilings),
      receiverOn(`${host.toUpperCase()}.:8443`),
    );
    await hand(first.key, first.siteId, 1, 6);
    await settle(first);
    await hand(second.key, second.siteId, 1, 6);
    await passTime(second, 30 * SECOND);
    expect(first.receiver.numbers).toEqual(range(1, 6));
    expect(second.receiver.numbers).toEqual(range(1, 2));
    await passTime(second, MINUTE);
    expect(second.receiver.delivered).toEqual(range(1, 6));
  });
});
