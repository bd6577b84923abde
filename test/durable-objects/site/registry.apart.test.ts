/** A Site's copy of D1: how old it may be when it decides, and what becomes of what D1 has no more. */
import { beforeEach, describe, expect, it, vi } from 'vitest';
import {
  addBattery,
  changeAndTellSite,
  changeRegistry,
  removePlant,
  removeSubDevice,
  tellSite,
} from '#workerd/registry-changes.ts';
import { failRegistry, hangRegistry, watchRegistry } from '#workerd/registry-reads.ts';
import { holdClock, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { commandsOf, connectListening, nthCommand, sendAck, sendTelemetry } from '#workerd/site-devices.ts';
import { listen } from '#workerd/site-listener.ts';
import { newestCommand, readCommands } from '#workerd/site-reads.ts';
import { evictSite, openSessions, rowsOf } from '#workerd/site-rows.ts';
import { newListeningSite, newSite } from '#workerd/site-scenes.ts';
import {
  batch,
  batteryCommand,
  charge,
  powerSetpoint,
  Submitter,
  submission,
} from '#workerd/site-submissions.ts';
import { createKey, createOrganization, createPlant } from '#workerd/world.ts';

holdClock();
beforeEach(() => {
  vi.spyOn(console, 'warn').mockReturnValue(undefined);
});

/** From this age on it is read anew meanwhile; the net for changes that nobody told of. */
const POLL_MS = 15 * MINUTE;
/** Older than this it decides nothing. */
const STALE_MS = 20 * MINUTE;

const chargeOf = (deviceId: string) => submission('device', batch(batteryCommand(5, { deviceId })));

describe('the copy that a submission is decided by', () => {
  it('is read anew when it is 20 minutes old, before the decision and not behind it [C-2.2]', async () => {
    const { organization, plant, partner } = await newSite();
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject({ rejectionCode: 'DEVICE_OFFLINE' });
    await changeRegistry(organization, addBattery(plant, 'BESS-7'));
    setClock(START_MS + STALE_MS);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject({ status: 'QUEUED' });
  });

  it('is not read again for 15 minutes: not at each submission, and not because the site was evicted [rule 9]', async () => {
    const { plant, partner } = await newSite();
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

  it('is read anew behind a submission that finds it 15 minutes old: who comes often never waits for it [rule 9]', async () => {
    const { plant, partner } = await newSite();
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

  it('decides until it is 20 minutes old, though D1 does not answer meanwhile [rule 7]', async () => {
    const { partner } = await newSite();
    await partner.submit(charge());
    hangRegistry();
    setClock(START_MS + STALE_MS - 1);
    expect(await partner.acknowledge(charge())).toMatchObject({ status: 'QUEUED' });
  });

  it('that could not be read behind a submission is read again a minute later, and no sooner [rule 9]', async () => {
    const { partner } = await newSite();
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

  it('is as old as it is over an eviction: its age is stored [rule 9]', async () => {
    const { organization, plant, partner } = await newSite();
    await partner.submit(charge());
    await changeRegistry(organization, addBattery(plant, 'BESS-7'));
    setClock(START_MS + STALE_MS);
    await evictSite(plant.id);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject({ status: 'QUEUED' });
  });

  it('that is old decides nothing when D1 fails: the submit is trouble, and can be sent again [C-6.4]', async () => {
    const { plant, partner } = await newSite();
    await partner.submit(charge());
    setClock(START_MS + STALE_MS);
    failRegistry();
    const one = charge();
    await expect(partner.submit(one)).rejects.toThrow();
    vi.restoreAllMocks();
    expect((await readCommands(plant.id)).total).toBe(1);
    expect(await partner.acknowledge(one)).toMatchObject({ status: 'QUEUED' });
  });

  it('that is old is waited for 3 s at most: a D1 that does not answer is trouble, not a hang [C-6.4]', async () => {
    const { plant, partner } = await newSite();
    await partner.submit(charge());
    setClock(START_MS + STALE_MS);
    hangRegistry();
    await expect(partner.submit(charge())).rejects.toThrow();
    vi.restoreAllMocks();
    expect((await readCommands(plant.id)).total).toBe(1);
  });

  it('is read once for many that come together [rule 4]', async () => {
    const { plant } = await newSite();
    const first = watchRegistry();
    await new Submitter(plant.id).submit(charge());
    const reads = first.count;
    setClock(START_MS + STALE_MS);
    await Promise.all(Array.from({ length: 5 }, () => new Submitter(plant.id).submit(charge())));
    expect(first.count).toBe(2 * reads);
  });
});

describe('a plant that D1 no longer has', () => {
  it('ends in its site: sessions cut, what is open FAILED PLANT_GONE, what comes REJECTED [C-3.2]', async () => {
    const { organization, plant, link, partner } = await newListeningSite();
    await partner.submit(charge());
    await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'RECEIVED');
    link.send({ kind: 'subscribed', commands: false });
    await partner.submit(charge(6));
    await changeAndTellSite(organization, plant.id, removePlant(plant));
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

  it('comes to rest: its alarm does not ask for it for ever [rule 10]', async () => {
    const { organization, plant, link, partner } = await newListeningSite();
    await sendTelemetry(link, plant.gateway, { gridPowerKw: 1 });
    await partner.submit(charge());
    await changeAndTellSite(organization, plant.id, removePlant(plant));
    await partner.submit(charge());
    for (let minute = 0; minute < 30; minute++) await passTime(plant.id, MINUTE);
    expect(await passTime(plant.id, 60 * MINUTE)).toBe(0);
  });

  it('ends in its site though nobody told of it: by the next submission that finds the copy old [C-3.2]', async () => {
    const { organization, plant, link, partner } = await newListeningSite();
    await partner.submit(charge());
    await changeRegistry(organization, removePlant(plant));
    setClock(START_MS + STALE_MS);
    expect((await partner.acknowledge(charge())).message).toContain('no such site');
    await link.untilClosed();
  });

  it('is not taken for gone when D1 only failed [rule 7]', async () => {
    const { organization, plant, link, partner } = await newListeningSite();
    await partner.submit(charge());
    const version = await changeRegistry(organization);
    failRegistry();
    await expect(tellSite(plant.id, version)).rejects.toThrow();
    vi.restoreAllMocks();
    expect(link.closed).toBeUndefined();
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'PENDING' });
  });
});

describe('a sub-device that D1 no longer has', () => {
  it('ends what waits for it FAILED DEVICE_OFFLINE, and nothing else [C-2.2]', async () => {
    const { organization, plant, partner } = await newSite();
    await partner.submit(charge(), submission('mode', { mode: 'STANDARD' }));
    await changeAndTellSite(organization, plant.id, removeSubDevice(plant, 'BESS-1'));
    expect(await partner.acknowledge(charge())).toMatchObject({ rejectionCode: 'DEVICE_OFFLINE' });
    const link = await connectListening(plant);
    await nthCommand(link, 1);
    expect(commandsOf(link).map((command) => command.action)).toEqual(['MODE_CHANGE']);
    const oldest = (await readCommands(plant.id)).items.at(-1);
    expect(oldest).toMatchObject({ commandType: 'DEVICE_COMMAND', status: 'FAILED' });
    expect(oldest?.reason).toMatch(/^DEVICE_OFFLINE/);
  });

  it('does not take the others of its batch along [C-7.8]', async () => {
    const { organization, plant, partner } = await newSite();
    const stop = { deviceId: 'FVE-1', assetType: 'FVE', command: 'FVE_STOP' } as const;
    await partner.submit(submission('device', batch(batteryCommand(5), stop)));
    await changeAndTellSite(organization, plant.id, removeSubDevice(plant, 'BESS-1'));
    const link = await connectListening(plant);
    expect((await nthCommand(link, 1)).action).toBe('FVE_STOP');
  });
});

describe('a legacy key', () => {
  /** A key of before the vhosts: its scope is `trading:connect`, and it connects to `/` [C-5.3]. */
  async function newLegacyScene() {
    const organization = await createOrganization();
    const plant = await createPlant(organization);
    const key = await createKey(organization, { scopes: ['trading:connect'] });
    return { organization, plant, listener: await listen(organization, key) };
  }

  it('is told of telemetry, and of the alarms that other keys cause [C-8.1]', async () => {
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

  it('that was revoked, and one that only reads over REST, have no lane [C-8.1]', async () => {
    const { organization, plant } = await newLegacyScene();
    const reader = await createKey(organization, { scopes: ['vcp:read'] });
    const revoked = await createKey(organization, { scopes: ['trading:connect'], revokedAtMs: START_MS });
    const partner = new Submitter(plant.id);
    await partner.submit(charge(51));
    const rows = await rowsOf<{ lane: string }>(
      plant.id,
      `SELECT DISTINCT lane FROM outbox WHERE kind = 'alarm'`,
    );
    const lanes = rows.map((row) => row.lane);
    expect(lanes).toContain(partner.keyId);
    expect(lanes).not.toContain(reader.id);
    expect(lanes).not.toContain(revoked.id);
  });
});
