/** A Site's copy of D1: its maximum age for a decision, and the effect of rows that D1 no longer has. */
import { runInDurableObject } from 'cloudflare:test';
import { beforeEach, vi } from 'vitest';
import {
  addBattery,
  changeAndNotifySite,
  changeRegistry,
  notifySite,
  removePlant,
  removeSubDevice,
} from '#workerd/registry-changes.ts';
import { failRegistry, hangRegistry, watchRegistry } from '#workerd/registry-reads.ts';
import { setScene } from '#workerd/scene.ts';
import { turn } from '#workerd/site-calls.ts';
import { MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { commandsOf, connectListening, nthCommand, sendAck, sendTelemetry } from '#workerd/site-devices.ts';
import { newestCommand, readCommands } from '#workerd/site-reads.ts';
import { columnOf, evictSite, numberOf, openSessions } from '#workerd/site-rows.ts';
import {
  batch,
  batteryCommand,
  charge,
  powerSetpoint,
  Submitter,
  submission,
} from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createKey, siteOf } from '#workerd/world.ts';

beforeEach(() => {
  vi.spyOn(console, 'warn').mockReturnValue(undefined);
});

/** From this age on a submission starts a new read. This poll finds changes without a notification. */
const POLL_MS = 15 * MINUTE;
/** A copy older than this decides nothing. */
const STALE_MS = 20 * MINUTE;

const chargeOf = (deviceId: string) => submission('device', batch(batteryCommand(5, { deviceId })));

describe('the registry copy that decides a submission', () => {
  it('a copy that is 20 minutes old is read again from D1 before the decision [C-2.2]', async () => {
    const { organization, plant, partner } = await setScene({ plant: true });
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject({ rejectionCode: 'DEVICE_OFFLINE' });
    await changeRegistry(organization, addBattery(plant, 'BESS-7'));
    setClock(START_MS + STALE_MS);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject({ status: 'QUEUED' });
  });

  it('a copy is not read again for 15 minutes, neither by submissions nor after an eviction [rule 9]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    await partner.submit(charge());
    const reads = watchRegistry();
    setClock(START_MS + POLL_MS - 1);
    await partner.submit(charge());
    await evictSite(plant.id);
    await partner.submit(charge());
    expect(reads.count).toBe(0);
    setClock(START_MS + STALE_MS);
    await partner.submit(charge());
    expect(reads.count).toBeGreaterThan(0);
  });

  it('a copy that is 15 minutes old still decides the submission, and D1 is read again afterwards [rule 9]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    await partner.submit(charge());
    const reads = watchRegistry();
    setClock(START_MS + POLL_MS);
    await partner.submit(charge());
    await vi.waitFor(() => expect(reads.count).toBe(1));
    setClock(START_MS + 2 * POLL_MS - 1);
    await partner.submit(charge());
    expect(reads.count).toBe(1);
    expect((await readCommands(plant.id)).total).toBe(3);
  });

  it('a copy decides until it is 20 minutes old, even if D1 does not answer [rule 7]', async () => {
    const { partner } = await setScene({ plant: true });
    await partner.submit(charge());
    hangRegistry();
    setClock(START_MS + STALE_MS - 1);
    expect(await partner.acknowledge(charge())).toMatchObject({ status: 'QUEUED' });
  });

  it('after a failed read of D1, the first submission a minute or more later starts another read [rule 9]', async () => {
    const { partner } = await setScene({ plant: true });
    await partner.submit(charge());
    const reads = failRegistry();
    const readsAt = async (sinceMs: number) => {
      setClock(START_MS + sinceMs);
      await partner.submit(charge());
      return reads.count;
    };
    expect(await readsAt(POLL_MS)).toBe(1);
    expect(await readsAt(POLL_MS + MINUTE - 1)).toBe(1);
    expect(await readsAt(POLL_MS + MINUTE)).toBe(2);
    vi.restoreAllMocks();
    const later = watchRegistry();
    setClock(START_MS + POLL_MS + 2 * MINUTE);
    await partner.submit(charge());
    await vi.waitFor(() => expect(later.count).toBe(1));
  });

  it('the age of a copy survives an eviction [rule 9]', async () => {
    const { organization, plant, partner } = await setScene({ plant: true });
    await partner.submit(charge());
    await changeRegistry(organization, addBattery(plant, 'BESS-7'));
    setClock(START_MS + STALE_MS);
    await evictSite(plant.id);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject({ status: 'QUEUED' });
  });

  it('a submit with an old copy fails if D1 fails, and can be repeated [C-6.4]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    await partner.submit(charge());
    setClock(START_MS + STALE_MS);
    failRegistry();
    const one = charge();
    await expect(partner.submit(one)).rejects.toThrow();
    vi.restoreAllMocks();
    expect((await readCommands(plant.id)).total).toBe(1);
    expect(await partner.acknowledge(one)).toMatchObject({ status: 'QUEUED' });
  });

  it('a submit with an old copy waits at most 3 s for D1, and then fails and records nothing [C-6.4]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    await partner.submit(charge());
    vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: START_MS + STALE_MS });
    const reads = hangRegistry();
    // The timer is the site's: its context must run it.
    const pass = (ms: number) =>
      runInDurableObject(siteOf(plant.id), () => {
        vi.advanceTimersByTime(ms);
      });
    let isOver = false;
    const submitted = expect(partner.submit(charge()))
      .rejects.toThrow('no answer within 3000 ms')
      .finally(() => {
        isOver = true;
      });
    while (reads.count === 0) await turn();
    await pass(3 * SECOND - 1);
    await numberOf(plant.id, 'SELECT 1');
    expect(isOver).toBe(false);
    await pass(1);
    await submitted;
    vi.restoreAllMocks();
    expect((await readCommands(plant.id)).total).toBe(1);
  });

  it('concurrent submits with an old copy read D1 once [rule 4]', async () => {
    const { plant } = await setScene({ plant: true });
    const first = watchRegistry();
    await new Submitter(plant.id).submit(charge());
    const reads = first.count;
    setClock(START_MS + STALE_MS);
    await Promise.all(Array.from({ length: 5 }, () => new Submitter(plant.id).submit(charge())));
    expect(first.count).toBe(2 * reads);
  });
});

describe('a plant that D1 no longer has', () => {
  it('the site of a deleted plant closes its sessions, ends open commands FAILED PLANT_GONE and rejects new ones [C-3.2]', async () => {
    const { organization, plant, link, partner } = await setScene({ gateway: 'listening' });
    await partner.submit(charge());
    await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'RECEIVED');
    link.send({ kind: 'subscribed', commands: false });
    await partner.submit(charge(6));
    await changeAndNotifySite(organization, plant.id, removePlant(plant));
    const rejection = { status: 'REJECTED', rejectionCode: 'DEVICE_OFFLINE' };
    const acknowledgement = await partner.acknowledge(charge());
    expect(acknowledgement).toMatchObject(rejection);
    expect(acknowledgement.message).toContain('no such site');
    await link.untilClosed();
    expect(await openSessions(plant.id)).toBe(0);
    const ended = (await readCommands(plant.id)).items.filter((row) => row.status === 'FAILED');
    expect(ended).toHaveLength(2);
    for (const { reason } of ended) expect(reason).toMatch(/^PLANT_GONE/);
    for (const one of [
      submission('site-setpoint', powerSetpoint(1)),
      submission('emergency', { type: 'STOP' }),
    ]) {
      expect(await partner.acknowledge(one)).toMatchObject(rejection);
    }
    await evictSite(plant.id);
    expect(await partner.acknowledge(charge())).toMatchObject(rejection);
  });

  it('the site of a deleted plant becomes idle: after half an hour it runs no alarm [rule 10]', async () => {
    const { organization, plant, link, partner } = await setScene({ gateway: 'listening' });
    await sendTelemetry(link, plant.gateway, { gridPowerKw: 1 });
    await partner.submit(charge());
    await changeAndNotifySite(organization, plant.id, removePlant(plant));
    await partner.submit(charge());
    for (let minute = 0; minute < 30; minute++) await passTime(plant.id, MINUTE);
    expect(await passTime(plant.id, 60 * MINUTE)).toBe(0);
  });

  it('a site that gets no notification notices the deletion of its plant at the next submission with an old copy [C-3.2]', async () => {
    const { organization, plant, link, partner } = await setScene({ gateway: 'listening' });
    await partner.submit(charge());
    await changeRegistry(organization, removePlant(plant));
    setClock(START_MS + STALE_MS);
    expect((await partner.acknowledge(charge())).message).toContain('no such site');
    await link.untilClosed();
  });

  it('a site does not treat its plant as deleted when D1 fails [rule 7]', async () => {
    const { organization, plant, link, partner } = await setScene({ gateway: 'listening' });
    await partner.submit(charge());
    const version = await changeRegistry(organization);
    failRegistry();
    await expect(notifySite(plant.id, version)).rejects.toThrow();
    vi.restoreAllMocks();
    expect(link.closed).toBeUndefined();
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'PENDING' });
  });
});

describe('a sub-device that D1 no longer has', () => {
  it('removing a sub-device ends only its own waiting commands, FAILED DEVICE_OFFLINE [C-2.2]', async () => {
    const { organization, plant, partner } = await setScene({ plant: true });
    await partner.submit(charge(), submission('mode', { mode: 'STANDARD' }));
    await changeAndNotifySite(organization, plant.id, removeSubDevice(plant, 'BESS-1'));
    expect(await partner.acknowledge(charge())).toMatchObject({ rejectionCode: 'DEVICE_OFFLINE' });
    const link = await connectListening(plant);
    await nthCommand(link, 1);
    expect(commandsOf(link).map((command) => command.action)).toEqual(['MODE_CHANGE']);
    const oldest = (await readCommands(plant.id)).items.at(-1);
    expect(oldest).toMatchObject({ commandType: 'DEVICE_COMMAND', status: 'FAILED' });
    expect(oldest?.reason).toMatch(/^DEVICE_OFFLINE/);
  });

  it('removing a sub-device does not end the other items of a waiting batch [C-7.8]', async () => {
    const { organization, plant, partner } = await setScene({ plant: true });
    const stop = { deviceId: 'FVE-1', assetType: 'FVE', command: 'FVE_STOP' } as const;
    await partner.submit(submission('device', batch(batteryCommand(5), stop)));
    await changeAndNotifySite(organization, plant.id, removeSubDevice(plant, 'BESS-1'));
    const link = await connectListening(plant);
    expect((await nthCommand(link, 1)).action).toBe('FVE_STOP');
  });
});

describe('the keys that get events', () => {
  /** A key from before the vhosts: its scope is `trading:connect`, and it connects to `/` [C-5.3]. */
  async function newLegacyScene() {
    return await setScene({ plant: true, partner: 'listening', key: { scopes: ['trading:connect'] } });
  }

  it('a key with the older scope trading:connect gets telemetry, and the alarms that other keys cause [C-8.1]', async () => {
    const { plant, listener } = await newLegacyScene();
    const link = await connectListening(plant);
    await sendTelemetry(link, plant.gateway, { gridPowerKw: 7 });
    await listener.link.next(() => listener.events('telemetry').length >= 1);
    expect(listener.events('telemetry')[0]?.payload.gridPowerKw).toBe(7);
    await new Submitter(plant.id).submit(charge(51));
    await passTime(plant.id, 10 * SECOND);
    const alarm = await listener.event('alarm', 'RAISED');
    expect(alarm.payload.type).toBe('CONSTRAINT_VIOLATION');
  });

  it('the outbox has a lane for a key with vcp:read only, but none for a revoked key or one without VCP scopes [C-8.1]', async () => {
    const { organization, plant } = await newLegacyScene();
    const reader = await createKey(organization, { scopes: ['vcp:read'] });
    const other = await createKey(organization, { scopes: ['plants:read'] });
    const revoked = await createKey(organization, { scopes: ['trading:connect'], revokedAtMs: START_MS });
    const partner = new Submitter(plant.id);
    await partner.submit(charge(51));
    const lanes = await columnOf(plant.id, `SELECT DISTINCT lane FROM outbox WHERE kind = 'alarm'`);
    expect(lanes).toContain(partner.keyId);
    expect(lanes).toContain(reader.id);
    expect(lanes).not.toContain(other.id);
    expect(lanes).not.toContain(revoked.id);
  });
});
