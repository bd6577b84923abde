/**
 * A registry change is in force in a Site as soon as the notified Site has applied it, without waiting for
 * the poll, and is applied once [C-2.2].
 */
import { beforeEach, vi } from 'vitest';
import {
  addBattery,
  changeAndNotifySite,
  changeRegistry,
  changeSettings,
  notifySite,
  removePlant,
  removeSubDevice,
  restoreVersion,
  revokeKey,
} from '#workerd/registry-changes.ts';
import { failRegistry, hangRegistry, holdNextAnswer, watchRegistry } from '#workerd/registry-reads.ts';
import { RUNNING, setScene } from '#workerd/scene.ts';
import { MINUTE, passTime, passUntilSent, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { sendTelemetry } from '#workerd/site-devices.ts';
import { listen } from '#workerd/site-listener.ts';
import { readCommands } from '#workerd/site-reads.ts';
import { breakWrites, evictSite, numberOf, openSessions, repair, rowsOf } from '#workerd/site-rows.ts';
import { batch, batteryCommand, charge, Submitter, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { addPlant, createKey, createOrganization } from '#workerd/world.ts';

beforeEach(() => {
  vi.spyOn(console, 'warn').mockReturnValue(undefined);
});

/** The acknowledgements for a battery that exists and for one that does not. */
const THERE = { status: 'QUEUED' };
const NOT_THERE = { status: 'REJECTED', rejectionCode: 'DEVICE_OFFLINE' };

const chargeOf = (deviceId: string) => submission('device', batch(batteryCommand(5, { deviceId })));

/** A site that has read its copy of the registry, without a battery BESS-7. */
async function newReadSite() {
  const { scene, plant, partner } = await setScene({ plant: true });
  expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(NOT_THERE);
  return { ...scene, withBattery: addBattery(plant, 'BESS-7') };
}

describe('an applied registry change', () => {
  it('an added sub-device accepts commands from the next submission on, and a removed one rejects them [C-2.2]', async () => {
    const { organization, plant, partner, withBattery } = await newReadSite();
    await changeAndNotifySite(organization, plant.id, withBattery);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
    await changeAndNotifySite(organization, plant.id, removeSubDevice(plant, 'BESS-7'));
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(NOT_THERE);
  });

  it('removing a sub-device immediately ends its waiting command FAILED [C-2.2]', async () => {
    const { organization, plant, partner } = await setScene({ plant: true });
    await partner.submit(charge());
    await changeAndNotifySite(organization, plant.id, removeSubDevice(plant, 'BESS-1'));
    const rows = await rowsOf<{ status: string }>(plant.id, 'SELECT status FROM command');
    expect(rows).toEqual([{ status: 'FAILED' }]);
  });

  it('a shorter telemetryIntervalSeconds applies to the next reading [C-8.2]', async () => {
    const settings = { telemetryIntervalSeconds: 300 };
    const { organization, plant, listener, link } = await setScene({ ...RUNNING, settings });
    const report = async (second: number) => {
      setClock(START_MS + second * SECOND);
      await sendTelemetry(link, plant.gateway, { gridPowerKw: second });
    };
    await report(0);
    await report(20);
    await changeAndNotifySite(organization, plant.id, changeSettings({ telemetryIntervalSeconds: 10 }));
    await report(21);
    await listener.quiet();
    expect(listener.events('telemetry').map(({ payload }) => payload.gridPowerKw)).toEqual([0, 21]);
  });

  it('a new key gets alarms, and a revoked key gets none [C-8.1]', async () => {
    const { organization, plant, key, listener, link } = await setScene(RUNNING);
    const late = await createKey(organization);
    const listeners = [listener, await listen(organization, late)];
    // The vhost of the revoked key does not know about it: it would accept every event.
    await changeAndNotifySite(organization, plant.id, revokeKey(key.id));
    await passTime(plant.id, 2 * SECOND);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/fault': 1 });
    await passTime(plant.id, SECOND);
    await passUntilSent(plant.id);
    for (const one of listeners) await one.quiet();
    const alarms = listeners.map((one) => one.events('alarm').map(({ payload }) => payload));
    expect(alarms).toMatchObject([[], [{ type: 'DEVICE_FAULT', deviceId: 'BESS-1', status: 'RAISED' }]]);
  });

  it('is in force after an eviction, without another read of D1 [rule 9]', async () => {
    const { organization, plant, partner, withBattery } = await newReadSite();
    await changeAndNotifySite(organization, plant.id, withBattery);
    await evictSite(plant.id);
    const reads = watchRegistry();
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
    expect(reads.count).toBe(0);
  });

  it('counts as a read of D1: 14 minutes later a submission does not read it again [rule 9]', async () => {
    const { organization, plant, partner } = await newReadSite();
    setClock(START_MS + 14 * MINUTE);
    await changeAndNotifySite(organization, plant.id);
    const reads = watchRegistry();
    setClock(START_MS + 28 * MINUTE);
    await partner.submit(charge());
    expect(reads.count).toBe(0);
  });
});

describe('a notification of a registry change', () => {
  it('a notification wakes an evicted site, which applies the change [rule 8]', async () => {
    const { organization, plant, partner, withBattery } = await newReadSite();
    const version = await changeRegistry(organization, withBattery);
    await evictSite(plant.id);
    await notifySite(plant.id, version);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
  });

  it('a notification to an unused site creates its copy of the registry, which decides from then on [rule 9]', async () => {
    const organization = await createOrganization();
    const id = await addPlant(organization);
    await changeAndNotifySite(organization, id, addBattery({ id }, 'BESS-7'));
    const reads = watchRegistry();
    const { message } = await new Submitter(id).acknowledge(chargeOf('BESS-7'));
    expect(message).toContain('BESS-7');
    expect(reads.count).toBe(0);
  });

  it('a notification reads D1 once, and not at all if the change is already applied [rule 9]', async () => {
    const { organization, plant, withBattery } = await newReadSite();
    const version = await changeRegistry(organization, withBattery);
    const reads = watchRegistry();
    await notifySite(plant.id, version);
    expect(reads.count).toBe(1);
    await notifySite(plant.id, version);
    await evictSite(plant.id);
    await notifySite(plant.id, version);
    expect(reads.count).toBe(1);
  });

  it('a notification of an older version leaves the newer copy in force [rule 10]', async () => {
    const { organization, plant, partner, withBattery } = await newReadSite();
    const version = await changeRegistry(organization);
    const later = await changeAndNotifySite(organization, plant.id, withBattery);
    await notifySite(plant.id, version);
    const stored = `SELECT json_extract(value, '$.version') FROM fact WHERE name = 'registry'`;
    expect(await numberOf(plant.id, stored)).toBe(later);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
  });

  it("after D1 was restored to an older version, a notification with a version below the copy's is applied [rule 7]", async () => {
    const { organization, plant, partner, withBattery } = await newReadSite();
    for (let change = 0; change < 3; change++) await changeAndNotifySite(organization, plant.id);
    await restoreVersion(organization, 1);
    await changeAndNotifySite(organization, plant.id, withBattery);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
  });

  it('concurrent notifications read D1 one after the other, and each change is in force when its own call returns [rule 4]', async () => {
    const { organization, plant } = await newReadSite();
    const changes: [battery: string, version: number][] = [];
    for (let number = 11; number < 20; number++) {
      const battery = `BESS-${number}`;
      changes.push([battery, await changeRegistry(organization, addBattery(plant, battery))]);
    }
    const reads = watchRegistry();
    const answers = changes.map(async ([battery, version]) => {
      await notifySite(plant.id, version);
      return await new Submitter(plant.id).acknowledge(chargeOf(battery));
    });
    expect(await Promise.all(answers)).toMatchObject(Array(9).fill(THERE));
    expect(reads.mostAtOnce).toBe(1);
  });

  it('a notification that arrives during a read of D1 waits for another read, and is applied only with it [rule 6]', async () => {
    const { organization, plant, partner, withBattery } = await newReadSite();
    const { reads, untilHeld, release } = holdNextAnswer();
    setClock(START_MS + 15 * MINUTE);
    await partner.submit(charge());
    await untilHeld();
    const version = await changeRegistry(organization, withBattery);
    const before = reads.count;
    let isTaken = false;
    const notified = notifySite(plant.id, version).then(() => {
      isTaken = true;
    });
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(NOT_THERE);
    expect(isTaken).toBe(false);
    release();
    await notified;
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
    expect(reads.count).toBe(before + 1);
  });

  it('a notification that arrives during a read of D1 is applied even if that read fails [rule 7]', async () => {
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
    const notified = notifySite(plant.id, version);
    // This version is older and already applied: its return proves that the earlier call waits for the read.
    await notifySite(plant.id, version - 1);
    failing.reject(new Error('D1_ERROR: the test wants it so'));
    await notified;
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
  });
});

describe('a registry change that a site cannot apply', () => {
  it.each([
    ['does not answer', hangRegistry],
    ['fails', failRegistry],
  ])(
    'if D1 %s, the notification is rejected, and the previous copy decides until a repeated notification [rule 7]',
    async (_, trouble) => {
      const { organization, plant, partner, withBattery } = await newReadSite();
      const version = await changeRegistry(organization, withBattery, removeSubDevice(plant, 'BESS-1'));
      trouble();
      await expect(notifySite(plant.id, version)).rejects.toThrow();
      expect(await partner.acknowledge(chargeOf('BESS-1'))).toMatchObject(THERE);
      expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(NOT_THERE);
      vi.restoreAllMocks();
      await notifySite(plant.id, version);
      expect(await partner.acknowledge(chargeOf('BESS-1'))).toMatchObject(NOT_THERE);
      expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
    },
  );

  it('the notification is rejected if D1 answers with an older version than it names, and is applied on retry [rule 7]', async () => {
    const { organization, plant, partner, withBattery } = await newReadSite();
    const version = await changeRegistry(organization);
    await expect(notifySite(plant.id, version + 1)).rejects.toThrow(/version/);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(NOT_THERE);
    expect(await changeRegistry(organization, withBattery)).toBe(version + 1);
    await notifySite(plant.id, version + 1);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
  });

  it('the notification is rejected if the site cannot store its copy, and is applied on retry [rule 3]', async () => {
    const { organization, plant, partner, withBattery } = await newReadSite();
    const version = await changeRegistry(organization, withBattery);
    await breakWrites(plant.id, 'INSERT ON fact', `NEW.name = 'registry'`);
    await expect(notifySite(plant.id, version)).rejects.toThrow();
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(NOT_THERE);
    await repair(plant.id);
    await notifySite(plant.id, version);
    const stored = `SELECT json_extract(value, '$.version') FROM fact WHERE name = 'registry'`;
    expect(await numberOf(plant.id, stored)).toBe(version);
    expect(await partner.acknowledge(chargeOf('BESS-7'))).toMatchObject(THERE);
  });
});

describe('a deleted plant', () => {
  it('a notification of the deletion ends sessions and open commands immediately, and may be repeated [C-3.2]', async () => {
    const { organization, plant, link, partner } = await setScene({ gateway: 'listening' });
    await partner.submit(charge());
    const version = await changeAndNotifySite(organization, plant.id, removePlant(plant));
    expect(await openSessions(plant.id)).toBe(0);
    await link.untilClosed();
    const [row] = (await readCommands(plant.id)).items;
    expect(row).toMatchObject({ status: 'FAILED', reason: expect.stringMatching(/^PLANT_GONE/) });
    await notifySite(plant.id, version);
    await evictSite(plant.id);
    await notifySite(plant.id, version);
    const acknowledgement = await partner.acknowledge(charge());
    expect(acknowledgement).toMatchObject(NOT_THERE);
    expect(acknowledgement.message).toContain('no such site');
  });

  it('a notification of the deletion to a site that was never used succeeds, and the site rejects commands [rule 10]', async () => {
    const { organization, plant } = await setScene({ plant: true });
    await changeAndNotifySite(organization, plant.id, removePlant(plant));
    expect(await new Submitter(plant.id).acknowledge(charge())).toMatchObject(NOT_THERE);
  });
});
