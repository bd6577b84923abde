/** A change that a Site is told of is in force there when it has taken it: without waiting for the net, and once [C-2.2]. */
import { beforeEach, describe, expect, it, vi } from 'vitest';
import {
  addBattery,
  changeAndTellSite,
  changeRegistry,
  changeSettings,
  removePlant,
  removeSubDevice,
  restoreVersion,
  revokeKey,
  tellSite,
} from '#workerd/registry-changes.ts';
import { failRegistry, hangRegistry, holdNextAnswer, watchRegistry } from '#workerd/registry-reads.ts';
import {
  holdClock,
  MINUTE,
  passTime,
  passUntilTold,
  SECOND,
  START_MS,
  setClock,
} from '#workerd/site-clock.ts';
import { connectListening, sendTelemetry } from '#workerd/site-devices.ts';
import { listen } from '#workerd/site-listener.ts';
import { readCommands } from '#workerd/site-reads.ts';
import { breakWrites, evictSite, numberOf, openSessions, repair, rowsOf } from '#workerd/site-rows.ts';
import { newHeardSite, newListeningSite, newSite } from '#workerd/site-scenes.ts';
import { batch, batteryCommand, charge, Submitter, submission } from '#workerd/site-submissions.ts';
import { addPlant, createKey, createOrganization, createPlant } from '#workerd/world.ts';

holdClock();
beforeEach(() => {
  vi.spyOn(console, 'warn').mockReturnValue(undefined);
});

/** What the partner of a site hears of a battery that is there, and of one that is not. */
const THERE = { status: 'QUEUED' };
const NOT_THERE = { status: 'REJECTED', rejectionCode: 'DEVICE_OFFLINE' };

const chargeOf = (deviceId: string) => submission('device', batch(batteryCommand(5, { deviceId })));

/** A site that has read its copy, in which no battery BESS-7 is. */
async function newReadSite() {
  const scene = await newSite();
  const { plant, partner } = scene;
  expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(NOT_THERE);
  return { ...scene, withBattery: addBattery(plant, 'BESS-7') };
}

describe('a change that a site has taken', () => {
  it('of its sub-devices decides the next submission, though no time has passed [C-2.2]', async () => {
    const { organization, plant, partner, withBattery } = await newReadSite();
    await changeAndTellSite(organization, plant.id, withBattery);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
    await changeAndTellSite(organization, plant.id, removeSubDevice(plant, 'BESS-7'));
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(NOT_THERE);
  });

  it('ends what waits for a sub-device that is no more, before anybody comes [C-2.2]', async () => {
    const { organization, plant, partner } = await newSite();
    await partner.submit(charge());
    await changeAndTellSite(organization, plant.id, removeSubDevice(plant, 'BESS-1'));
    const rows = await rowsOf<{ status: string }>(plant.id, 'SELECT status FROM command');
    expect(rows).toEqual([{ status: 'FAILED' }]);
  });

  it('of the settings is kept to at once [C-8.2]', async () => {
    const organization = await createOrganization({ telemetryIntervalSeconds: 300 });
    const plant = await createPlant(organization);
    const listener = await listen(organization, await createKey(organization));
    const link = await connectListening(plant);
    const tell = async (second: number) => {
      setClock(START_MS + second * SECOND);
      await sendTelemetry(link, plant.gateway, { gridPowerKw: second });
    };
    await tell(0);
    await tell(20);
    await changeAndTellSite(organization, plant.id, changeSettings({ telemetryIntervalSeconds: 10 }));
    await tell(21);
    await listener.quiet();
    expect(listener.events('telemetry').map(({ payload }) => payload.gridPowerKw)).toEqual([0, 21]);
  });

  it('has a new key told of alarms, and one that was revoked no more [C-8.1]', async () => {
    const { organization, plant, key, listener } = await newHeardSite();
    const link = await connectListening(plant);
    const late = await createKey(organization);
    const listeners = [listener, await listen(organization, late)];
    // Its vhost has not heard of that end: it would take whatever it is told.
    await changeAndTellSite(organization, plant.id, revokeKey(key.id));
    await passTime(plant.id, 2 * SECOND);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/fault': 1 });
    await passTime(plant.id, SECOND);
    await passUntilTold(plant.id);
    for (const one of listeners) await one.quiet();
    const alarms = listeners.map((one) => one.events('alarm').map(({ payload }) => payload));
    expect(alarms).toMatchObject([[], [{ type: 'DEVICE_FAULT', deviceId: 'BESS-1', status: 'RAISED' }]]);
  });

  it('is in force after an eviction, and read no more [rule 9]', async () => {
    const { organization, plant, partner, withBattery } = await newReadSite();
    await changeAndTellSite(organization, plant.id, withBattery);
    await evictSite(plant.id);
    const reads = watchRegistry();
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
    expect(reads.count).toBe(0);
  });

  it('counts as a reading: the net is due 15 minutes after it [rule 9]', async () => {
    const { organization, plant, partner } = await newReadSite();
    setClock(START_MS + 14 * MINUTE);
    await changeAndTellSite(organization, plant.id);
    const reads = watchRegistry();
    setClock(START_MS + 28 * MINUTE);
    await partner.submit(charge());
    expect(reads.count).toBe(0);
  });
});

describe('a change that a site is told of', () => {
  it('wakes one that was evicted [rule 8]', async () => {
    const { organization, plant, partner, withBattery } = await newReadSite();
    const version = await changeRegistry(organization, withBattery);
    await evictSite(plant.id);
    await tellSite(plant.id, version);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
  });

  it('is the first that one hears of: the copy that it makes decides [rule 9]', async () => {
    const organization = await createOrganization();
    const id = await addPlant(organization);
    await changeAndTellSite(organization, id, addBattery({ id }, 'BESS-7'));
    const reads = watchRegistry();
    const { message } = await new Submitter(id).acknowledge(chargeOf('BESS-7'));
    expect(message).toContain('BESS-7');
    expect(reads.count).toBe(0);
  });

  it('reads D1 once, and not at all where it is taken already [rule 9]', async () => {
    const { organization, plant, withBattery } = await newReadSite();
    const version = await changeRegistry(organization, withBattery);
    const reads = watchRegistry();
    await tellSite(plant.id, version);
    expect(reads.count).toBe(1);
    await tellSite(plant.id, version);
    await evictSite(plant.id);
    await tellSite(plant.id, version);
    expect(reads.count).toBe(1);
  });

  it('after a later one that it has taken changes nothing any more [rule 10]', async () => {
    const { organization, plant, partner, withBattery } = await newReadSite();
    const version = await changeRegistry(organization);
    await changeAndTellSite(organization, plant.id, withBattery);
    await tellSite(plant.id, version);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
  });

  it('is taken though its version is lower than the copy: D1 was restored to what it was before [rule 7]', async () => {
    const { organization, plant, partner, withBattery } = await newReadSite();
    for (let change = 0; change < 3; change++) await changeAndTellSite(organization, plant.id);
    await restoreVersion(organization, 1);
    await changeAndTellSite(organization, plant.id, withBattery);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
  });

  it('is one of many at once: D1 is read by one reading at a time, and all are taken [rule 4]', async () => {
    const { organization, plant, partner, withBattery } = await newReadSite();
    const reads = watchRegistry();
    const versions: number[] = [];
    for (let change = 0; change < 8; change++) versions.push(await changeRegistry(organization));
    versions.push(await changeRegistry(organization, withBattery));
    await Promise.all(versions.map((version) => tellSite(plant.id, version)));
    expect(reads.mostAtOnce).toBe(1);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
  });

  it('is not mistaken for what a reading finds that began before it [rule 6]', async () => {
    const { organization, plant, partner, withBattery } = await newReadSite();
    const { reads, untilHeld, release } = holdNextAnswer();
    setClock(START_MS + 15 * MINUTE);
    await partner.submit(charge());
    await untilHeld();
    const version = await changeRegistry(organization, withBattery);
    const before = reads.count;
    let isTaken = false;
    const told = tellSite(plant.id, version).then(() => {
      isTaken = true;
    });
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(NOT_THERE);
    expect(isTaken).toBe(false);
    release();
    await told;
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
    expect(reads.count).toBe(before + 1);
  });

  it('is taken though the reading that was under way fails [rule 7]', async () => {
    const { organization, plant, partner, withBattery } = await newReadSite();
    const failing = Promise.withResolvers<void>();
    let isFirst = true;
    const reads = watchRegistry(async () => {
      if (!isFirst) return;
      isFirst = false;
      await failing.promise;
    });
    setClock(START_MS + 15 * MINUTE);
    await partner.submit(charge());
    await vi.waitFor(() => expect(reads.count).toBe(1));
    const version = await changeRegistry(organization, withBattery);
    const told = tellSite(plant.id, version);
    // Behind it, and taken already: when this returns, the one before it waits for the reading.
    await tellSite(plant.id, version - 1);
    failing.reject(new Error('D1_ERROR: the test wants it so'));
    await told;
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
  });

  it('is read, whatever version it has, where older code stored a copy without one [rule 9]', async () => {
    const { organization, plant, partner, withBattery } = await newReadSite();
    await rowsOf(plant.id, `UPDATE fact SET value = json_remove(value, '$.version') WHERE name = 'registry'`);
    await evictSite(plant.id);
    const version = await changeRegistry(organization, withBattery);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(NOT_THERE);
    await tellSite(plant.id, version);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
  });
});

describe('a change that a site cannot take', () => {
  it.each([
    ['does not answer', hangRegistry],
    ['fails', failRegistry],
  ])(
    'since D1 %s is trouble for who tells it; what decided before decides, until it is told again [rule 7]',
    async (_, trouble) => {
      const { organization, plant, partner, withBattery } = await newReadSite();
      const version = await changeRegistry(organization, withBattery, removeSubDevice(plant, 'BESS-1'));
      trouble();
      await expect(tellSite(plant.id, version)).rejects.toThrow();
      expect(await partner.acknowledge(chargeOf('BESS-1'))).toMatchObject(THERE);
      expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(NOT_THERE);
      vi.restoreAllMocks();
      await tellSite(plant.id, version);
      expect(await partner.acknowledge(chargeOf('BESS-1'))).toMatchObject(NOT_THERE);
      expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
    },
  );

  it('since D1 answers an older version is trouble: it is not taken [rule 7]', async () => {
    const { organization, plant } = await newReadSite();
    const version = await changeRegistry(organization);
    await expect(tellSite(plant.id, version + 1)).rejects.toThrow(/version/);
    await tellSite(plant.id, version);
  });

  it('since its own disk fails is trouble, too, and taken when it is told again [rule 3]', async () => {
    const { organization, plant, partner, withBattery } = await newReadSite();
    const version = await changeRegistry(organization, withBattery);
    await breakWrites(plant.id, 'INSERT ON fact', `NEW.name = 'registry'`);
    await expect(tellSite(plant.id, version)).rejects.toThrow();
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(NOT_THERE);
    await repair(plant.id);
    await tellSite(plant.id, version);
    const stored = `SELECT json_extract(value, '$.version') FROM fact WHERE name = 'registry'`;
    expect(await numberOf(plant.id, stored)).toBe(version);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
  });
});

describe('a plant that is gone', () => {
  it('ends in its site as soon as that is told, also when it is told again [C-3.2]', async () => {
    const { organization, plant, link, partner } = await newListeningSite();
    await partner.submit(charge());
    const version = await changeAndTellSite(organization, plant.id, removePlant(plant));
    expect(await openSessions(plant.id)).toBe(0);
    await link.untilClosed();
    const [row] = (await readCommands(plant.id)).items;
    expect(row).toMatchObject({ status: 'FAILED', reason: expect.stringMatching(/^PLANT_GONE/) });
    await tellSite(plant.id, version);
    await evictSite(plant.id);
    await tellSite(plant.id, version);
    const acknowledgement = await partner.acknowledge(charge());
    expect(acknowledgement).toMatchObject(NOT_THERE);
    expect(acknowledgement.message).toContain('no such site');
  });

  it('before its site was ever used is told of without trouble [rule 10]', async () => {
    const organization = await createOrganization();
    const plant = await createPlant(organization);
    await changeAndTellSite(organization, plant.id, removePlant(plant));
    expect(await new Submitter(plant.id).acknowledge(charge())).toMatchObject(NOT_THERE);
  });
});
