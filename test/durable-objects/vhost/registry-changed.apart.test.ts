/**
 * A registry change applies in a Vhost as soon as the Vhost has applied its notification: without waiting for
 * the periodic refresh, and once (rule 6).
 */
import { evictDurableObject } from 'cloudflare:test';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { ackOf, breakWrites, type Partner, setpoint, vhostRows } from '#workerd/partner.ts';
import {
  changeAndNotifyVhost,
  changeRegistry,
  changeSettings,
  fillWithPlants,
  notifyVhost,
  removePlant,
  restoreVersion,
} from '#workerd/registry-changes.ts';
import { failRegistry, hangRegistry, holdNextAnswer, watchRegistry } from '#workerd/registry-reads.ts';
import { ACKS, setScene } from '#workerd/scene.ts';
import { holdClock, MINUTE, START_MS, setClock } from '#workerd/site-clock.ts';
import { createPlant, type Key, vhostOf } from '#workerd/world.ts';

/** From this age on a copy is refreshed after each message. */
const AGEING_MS = 15 * MINUTE;

// Time stands still unless a test moves it; D1 is searched for an unknown site once a second.
holdClock();
beforeEach(() => {
  vi.spyOn(console, 'warn').mockReturnValue(undefined);
});

/** The outcome of an unsigned setpoint, which is accepted when the signature is optional. */
const TAKEN = { status: 'QUEUED' };
const UNSIGNED = { status: 'REJECTED', message: 'signature missing' };
const NO_SITE = { status: 'REJECTED', message: 'no such site' };

async function publishUnsigned(partner: Partner, siteId: string): Promise<unknown> {
  return await ackOf(partner, partner.command(siteId, 'site-setpoint', setpoint(), { signingKey: null }));
}

/** A vhost that has read its copy and used it to decide; signatures are optional. */
async function openReader() {
  const scene = await setScene({ plant: true, consumes: ACKS });
  expect(await publishUnsigned(scene.partner, scene.plant.id)).toMatchObject(TAKEN);
  return { ...scene, withSignatures: changeSettings({ requireSignedCommands: true }) };
}

/** The version of the stored copy. */
async function storedVersion(key: Key): Promise<number | undefined> {
  const stored = `SELECT json_extract(value, '$.version') AS version FROM fact WHERE name = 'registry'`;
  const [row] = await vhostRows<{ version: number }>(key, stored);
  return row?.version;
}

async function sleep(key: Key): Promise<void> {
  await evictDurableObject(vhostOf(key.id));
}

describe('a change that a vhost has applied', () => {
  it('to the signature requirement decides on the next publish, though no time has passed [C-7.2]', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    await changeAndNotifyVhost(organization, key.id, withSignatures);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
    await changeAndNotifyVhost(organization, key.id, changeSettings({ requireSignedCommands: false }));
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(TAKEN);
  });

  it('has the next command accepted for a plant that it adds, under its external id too [C-7.1]', async () => {
    const { organization, key, partner } = await openReader();
    const externalPlantId = `ext-${crypto.randomUUID().slice(0, 8)}`;
    const plant = await createPlant(organization, { externalPlantId });
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(NO_SITE);
    await changeAndNotifyVhost(organization, key.id);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(TAKEN);
    expect(await publishUnsigned(partner, externalPlantId)).toMatchObject(TAKEN);
  });

  it('has the next command rejected for a plant that it removes [C-7.1]', async () => {
    const { organization, plant, key, partner } = await openReader();
    await changeAndNotifyVhost(organization, key.id, removePlant(plant));
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(NO_SITE);
  });

  it('still applies after a sleep without another read (rule 9)', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    await changeAndNotifyVhost(organization, key.id, withSignatures);
    await sleep(key);
    const reads = watchRegistry();
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
    expect(reads.count).toBe(0);
  });

  it('still applies after a sleep, also when the plants no longer fit into one row (rule 9)', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    await fillWithPlants(organization);
    await changeAndNotifyVhost(organization, key.id, withSignatures);
    await sleep(key);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
  });
});

describe('the notification of a change', () => {
  it('wakes a sleeping vhost (rule 8)', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    const version = await changeRegistry(organization, withSignatures);
    await sleep(key);
    await notifyVhost(key.id, version);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
  });

  it('reads D1 once, and not at all when the change is already applied (rule 9)', async () => {
    const { organization, key, withSignatures } = await openReader();
    const reads = watchRegistry();
    const version = await changeRegistry(organization, withSignatures);
    await notifyVhost(key.id, version);
    expect(reads.count).toBe(1);
    await notifyVhost(key.id, version);
    await sleep(key);
    await notifyVhost(key.id, version);
    expect(reads.count).toBe(1);
  });

  it('has no effect after a later change was applied (rule 10)', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    const version = await changeRegistry(organization);
    const later = await changeAndNotifyVhost(organization, key.id, withSignatures);
    await notifyVhost(key.id, version);
    expect(await storedVersion(key)).toBe(later);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
  });

  it("is applied though its version is lower than the copy's, because D1 was restored to an earlier state (rule 7)", async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    for (let change = 0; change < 3; change++) await changeAndNotifyVhost(organization, key.id);
    await restoreVersion(organization, 1);
    await changeAndNotifyVhost(organization, key.id, withSignatures);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
  });

  it('can be one of nine concurrent ones: D1 is read by one query at a time, and the last change applies (rule 4)', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    const reads = watchRegistry();
    const versions: number[] = [];
    for (let change = 0; change < 8; change++) versions.push(await changeRegistry(organization));
    versions.push(await changeRegistry(organization, withSignatures));
    await Promise.all(versions.map((version) => notifyVhost(key.id, version)));
    expect(reads.mostAtOnce).toBe(1);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
  });

  it('is not answered with a read that began before it: the vhost reads D1 again (rule 6)', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    const { reads, untilHeld, release } = holdNextAnswer();
    setClock(START_MS + AGEING_MS);
    await partner.quiet();
    await untilHeld();
    const version = await changeRegistry(organization, withSignatures);
    let isTaken = false;
    const notified = notifyVhost(key.id, version).then(() => {
      isTaken = true;
    });
    await notifyVhost(key.id, version - 1);
    expect([isTaken, reads.count]).toEqual([false, 1]);
    release();
    await notified;
    expect(reads.count).toBe(2);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
  });

  it('is applied though the read in progress fails (rule 7)', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    const failing = Promise.withResolvers<void>();
    let isFirst = true;
    const reads = watchRegistry(async () => {
      if (!isFirst) return;
      isFirst = false;
      await failing.promise;
    });
    setClock(START_MS + AGEING_MS);
    partner.link.send({ kind: 'credit', drainedBytes: 0 });
    await vi.waitFor(() => expect(reads.count).toBe(1));
    const version = await changeRegistry(organization, withSignatures);
    const notified = notifyVhost(key.id, version);
    // This change comes after the other and is already applied; its return proves that the earlier one waits
    // for the read.
    await notifyVhost(key.id, version - 1);
    failing.reject(new Error('D1_ERROR: the test wants it so'));
    await notified;
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
  });

  it('for an ended or never opened key succeeds without a read of D1 (rule 9)', async () => {
    const { organization, key, withSignatures } = await openReader();
    await vhostOf(key.id).revoke();
    const version = await changeRegistry(organization, withSignatures);
    const reads = watchRegistry();
    await notifyVhost(key.id, version);
    await notifyVhost(crypto.randomUUID(), version);
    expect(reads.count).toBe(0);
  });
});

describe('a change that a vhost cannot apply', () => {
  it.each([
    ['does not answer', hangRegistry],
    ['fails', failRegistry],
  ])(
    'because D1 %s has its notification fail; the previous copy decides until the next notification (rule 7)',
    async (_, trouble) => {
      const { organization, plant, key, partner, withSignatures } = await openReader();
      const version = await changeRegistry(organization, withSignatures);
      trouble();
      await expect(notifyVhost(key.id, version)).rejects.toThrow();
      expect(await publishUnsigned(partner, plant.id)).toMatchObject(TAKEN);
      vi.restoreAllMocks();
      await notifyVhost(key.id, version);
      expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
    },
  );

  it('because D1 still returns an older version has its notification fail, and the next one applies it (rule 7)', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    const version = await changeRegistry(organization);
    await expect(notifyVhost(key.id, version + 1)).rejects.toThrow(/version/);
    expect(await storedVersion(key)).toBe(version);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(TAKEN);
    expect(await changeRegistry(organization, withSignatures)).toBe(version + 1);
    await notifyVhost(key.id, version + 1);
    expect(await storedVersion(key)).toBe(version + 1);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
  });

  it('because its storage fails has its notification fail, and the next one applies it (rule 3)', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    const version = await changeRegistry(organization, withSignatures);
    const mend = await breakWrites(key, 'fact', { when: `NEW.name = 'registry'` });
    await expect(notifyVhost(key.id, version)).rejects.toThrow();
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(TAKEN);
    await mend();
    await notifyVhost(key.id, version);
    expect(await storedVersion(key)).toBe(version);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
  });
});
