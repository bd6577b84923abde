/**
 * The end of a key, by revocation or expiry: its sockets close, its queues are deleted, and new connections
 * are refused [C-5.6].
 */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { describe, expect, it, vi } from 'vitest';
import { grantOf } from '#workerd/door.ts';
import { dialVhost } from '#workerd/links.ts';
import { hand, outboxEvents } from '#workerd/outbox-events.ts';
import { commandLog, publishOf, vhostRows } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { SiteCalls } from '#workerd/site-calls.ts';
import { vhostAlarmAt } from '#workerd/site-clock.ts';
import { createOrganization, type Key, type Organization, vhostOf } from '#workerd/world.ts';
import { CLOSE_CODES } from '../../../../protocol/link/live.ts';
import type { VhostLinkUp } from '../../../../protocol/link/vhost.ts';

const TABLES = ['chunk', 'queue', 'consumer', 'channel_limit', 'connection', 'received'];

/** Rows that remain of a key's queues. */
async function leftOver(key: Key): Promise<number> {
  const counts = TABLES.map((table) => `(SELECT count(*) FROM ${table})`).join(' + ');
  const [left] = await vhostRows<{ total: number }>(key, `SELECT ${counts} AS total`);
  return left?.total ?? -1;
}

async function expectNoWayIn(key: Key): Promise<void> {
  const refused = await dialVhost(key.id);
  expect(refused.status).toBe(401);
  expect(await refused.json()).toMatchObject({ statusCode: 401, code: 'UNAUTHORIZED' });
  expect(await vhostOf(key.id).receive('site', outboxEvents(100, 1))).toMatchObject({ gone: true });
  expect(await vhostOf(key.id).receivePassing('site', outboxEvents(100, 1))).toBe('gone');
  expect(await leftOver(key)).toBe(0);
}

/** A key in use: two connections, every kind of queue filled, some messages leased. */
async function keyInUse(organization: Organization, options: { expiresAtMs?: number } = {}) {
  // The flush of telemetry is a timer, which would keep the object awake.
  vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'] });
  const { key, partner, siteId, connect } = await setScene({
    organization,
    partner: 'connected',
    key: options,
  });
  const other = await connect();
  for (const [index, kind] of (['ack', 'alarm', 'execution', 'telemetry'] as const).entries()) {
    await hand(key, siteId, 1 + index, 1, { kind });
  }
  await partner.ask(publishOf(partner.routingKey('mode'), 'not JSON'));
  await partner.consume('event.status');
  await partner.delivered(1);
  return { key, partner, other };
}

/** The object's ends of the links. */
async function socketsOf(key: Key): Promise<WebSocket[]> {
  return await runInDurableObject(vhostOf(key.id), (_vhost, state) => state.getWebSockets());
}

/** A frame reaches the object that was on its way when the link closed. */
async function arrives(key: Key, sockets: readonly WebSocket[], frame: VhostLinkUp): Promise<void> {
  expect(sockets).toHaveLength(1);
  await runInDurableObject(vhostOf(key.id), async (vhost) => {
    for (const socket of sockets) await vhost.webSocketMessage(socket, JSON.stringify([frame]));
  });
}

describe('a revoked key', () => {
  it('has its sockets closed, its queues deleted, and new connections refused [C-5.6]', async () => {
    const { key, partner, other } = await keyInUse(await createOrganization());
    await vhostOf(key.id).revoke();
    expect(await partner.link.untilClosed()).toMatchObject({ code: CLOSE_CODES.revoked });
    expect(await other.link.untilClosed()).toMatchObject({ code: CLOSE_CODES.revoked });
    await expectNoWayIn(key);
  });

  it('stays revoked over sleeps, a second revocation, and another opening [C-5.6]', async () => {
    const organization = await createOrganization();
    const { key } = await keyInUse(organization);
    await vhostOf(key.id).revoke();
    await vhostOf(key.id).revoke();
    await evictDurableObject(vhostOf(key.id));
    await expectNoWayIn(key);
    await vhostOf(key.id).open(grantOf(key.id, organization));
    await expectNoWayIn(key);
  });

  it('has a publish under way recorded, one that arrives during the revocation not recorded, and neither confirmed [C-5.6]', async () => {
    const { plant, key, partner } = await setScene({ plant: true, partner: 'connected' });
    const sockets = await socketsOf(key);
    const calls = SiteCalls.watch();
    const release = calls.hold(plant.id);
    partner.link.send({ ...partner.command(plant.id, 'mode', { mode: 'STANDARD' }), seq: 1 });
    await calls.arrived(plant.id, 1);
    const revoked = vhostOf(key.id).revoke();
    await partner.link.untilClosed();
    // An emergency is not held, and would be recorded first.
    await arrives(key, sockets, { ...partner.command(plant.id, 'emergency', { type: 'STOP' }), seq: 2 });
    release();
    await revoked;
    const { items } = await commandLog(plant.id);
    expect(items.map(({ commandType }) => commandType)).toEqual(['MODE_CHANGE']);
    expect(partner.link.received.filter(({ kind }) => kind === 'stored')).toEqual([]);
    await expectNoWayIn(key);
  });

  it('has a publish neither recorded nor confirmed that its client sends after the revocation [C-5.6]', async () => {
    const { plant, key, partner } = await setScene({ plant: true, partner: 'connected' });
    const sockets = await socketsOf(key);
    await vhostOf(key.id).revoke();
    await partner.link.untilClosed();
    await arrives(key, sockets, { ...partner.command(plant.id, 'emergency', { type: 'STOP' }), seq: 1 });
    expect((await commandLog(plant.id)).total).toBe(0);
    expect(partner.link.received.filter(({ kind }) => kind === 'stored')).toEqual([]);
    await expectNoWayIn(key);
  });

  it('gets no event of a command in progress: its queues stay empty [C-5.6]', async () => {
    const { plant, key, partner } = await setScene({ plant: true, partner: 'connected' });
    const calls = SiteCalls.watch();
    const release = calls.hold(plant.id);
    partner.link.send({ ...partner.command(plant.id, 'mode', { mode: 'STANDARD' }), seq: 1 });
    await calls.arrived(plant.id, 1);
    const revoked = vhostOf(key.id).revoke();
    expect(await partner.link.untilClosed()).toMatchObject({ code: CLOSE_CODES.revoked });
    release();
    await revoked;
    await expectNoWayIn(key);
  });

  it('does not affect the other keys of its organization', async () => {
    const organization = await createOrganization();
    const { key } = await keyInUse(organization);
    const { partner } = await keyInUse(organization);
    await vhostOf(key.id).revoke();
    await partner.quiet();
    expect(partner.link.closed).toBeUndefined();
  });
});

describe('an expired key', () => {
  const LIFE_MS = 30_000;

  async function expiringKey() {
    const expiresAtMs = Date.now() + LIFE_MS;
    return { ...(await keyInUse(await createOrganization(), { expiresAtMs })), expiresAtMs };
  }

  it('has its sockets closed by the agenda, its queues deleted, and new connections refused [C-5.6]', async () => {
    const { key, partner, other, expiresAtMs } = await expiringKey();
    expect(await vhostAlarmAt(key)).toBeLessThanOrEqual(expiresAtMs);
    vi.setSystemTime(expiresAtMs);
    await runDurableObjectAlarm(vhostOf(key.id));
    expect(await partner.link.untilClosed()).toMatchObject({ code: CLOSE_CODES.expired });
    expect(await other.link.untilClosed()).toMatchObject({ code: CLOSE_CODES.expired });
    await expectNoWayIn(key);
  });

  it('ends even if its signing key cannot be decrypted, and no signing key is stored afterwards [C-14.7]', async () => {
    const { key, partner, expiresAtMs } = await expiringKey();
    const broken = `json_set(value, '$.signingKeySealed', '1.AA==.AA==.AA==')`;
    await vhostRows(key, `UPDATE fact SET value = ${broken} WHERE name = 'key'`);
    await evictDurableObject(vhostOf(key.id));
    vi.setSystemTime(expiresAtMs);
    await runDurableObjectAlarm(vhostOf(key.id));
    expect(await partner.link.untilClosed()).toMatchObject({ code: CLOSE_CODES.expired });
    expect(await vhostOf(key.id).sealedBy()).toEqual({});
    await expectNoWayIn(key);
  });

  it('is valid until the last millisecond before its expiry; a publish sent at its expiry is not confirmed [C-5.6]', async () => {
    const { key, partner, expiresAtMs } = await expiringKey();
    vi.setSystemTime(expiresAtMs - 1);
    expect(await partner.readyCount('event.alarm')).toBe(1);
    vi.setSystemTime(expiresAtMs);
    partner.link.send({ ...publishOf(partner.routingKey('mode'), 'not JSON'), seq: 1 });
    expect(await partner.link.untilClosed()).toMatchObject({ code: CLOSE_CODES.expired });
    expect(partner.link.received.some((frame) => frame.kind === 'stored' && frame.seqs.includes(1))).toBe(
      false,
    );
    await expectNoWayIn(key);
  });

  it('has its queues deleted even when no client is connected [C-5.6]', async () => {
    const { key, partner, other, expiresAtMs } = await expiringKey();
    partner.link.socket.close();
    other.link.socket.close();
    vi.setSystemTime(expiresAtMs);
    await runDurableObjectAlarm(vhostOf(key.id));
    expect(await leftOver(key)).toBe(0);
    await expectNoWayIn(key);
  });
});
