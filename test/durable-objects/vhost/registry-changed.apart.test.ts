/** A change that a Vhost is told of is in force there when it has taken it: without waiting for the net, and once (rule 6). */
import { evictDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { eventOf, type Partner, setpoint, vhostRows } from '../../support/workerd/partner.ts';
import { openPartnerWithPlant } from '../../support/workerd/partner-scenes.ts';
import {
  changeAndTellVhost,
  changeRegistry,
  changeSettings,
  removePlant,
  restoreVersion,
  tellVhost,
} from '../../support/workerd/registry-changes.ts';
import {
  failRegistry,
  hangRegistry,
  holdNextAnswer,
  watchRegistry,
} from '../../support/workerd/registry-reads.ts';
import { holdClock, MINUTE, START_MS, setClock } from '../../support/workerd/site-clock.ts';
import { createPlant, type Key, vhostOf } from '../../support/workerd/world.ts';

/** From this age on a copy is read anew behind each message. */
const AGEING_MS = 15 * MINUTE;

// No time passes unless a test says so: a site that is unknown is looked for in D1 once a second.
holdClock();
beforeEach(() => {
  vi.spyOn(console, 'warn').mockReturnValue(undefined);
});

/** What becomes of a setpoint without a signature; one that is not required is taken. */
const TAKEN = { status: 'QUEUED' };
const UNSIGNED = { status: 'REJECTED', message: 'signature missing' };
const NO_SITE = { status: 'REJECTED', message: 'no such site' };

async function publishUnsigned(partner: Partner, siteId: string): Promise<unknown> {
  const before = partner.deliveries().length;
  const question = partner.command(siteId, 'site-setpoint', setpoint(), { signingKey: null });
  expect(await partner.ask(question)).toMatchObject({ kind: 'stored' });
  const ack = (await partner.delivered(before + 1)).at(-1);
  return ack && eventOf(ack).payload;
}

/** A vhost that has read its copy and decided by it; nobody wants signatures. */
async function openReader() {
  const scene = await openPartnerWithPlant();
  await scene.partner.consume('event.status', { noAck: true });
  expect(await publishUnsigned(scene.partner, scene.plant.id)).toMatchObject(TAKEN);
  return { ...scene, withSignatures: changeSettings({ requireSignedCommands: true }) };
}

/** The version of the copy that a sleep would leave. */
async function storedVersion(key: Key): Promise<number | undefined> {
  const stored = `SELECT json_extract(value, '$.version') AS version FROM fact WHERE name = 'registry'`;
  const [row] = await vhostRows<{ version: number }>(key, stored);
  return row?.version;
}

async function sleep(key: Key): Promise<void> {
  await evictDurableObject(vhostOf(key.id));
}

describe('a change that a vhost has taken', () => {
  it('of what must be signed decides the next publish, though no time has passed [C-7.2]', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    await changeAndTellVhost(organization, key.id, withSignatures);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
    await changeAndTellVhost(organization, key.id, changeSettings({ requireSignedCommands: false }));
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(TAKEN);
  });

  it('of the plants has a new one commanded at once, under its own name, too [C-7.1]', async () => {
    const { organization, key, partner } = await openReader();
    const externalPlantId = `ext-${crypto.randomUUID().slice(0, 8)}`;
    const plant = await createPlant(organization, { externalPlantId });
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(NO_SITE);
    await changeAndTellVhost(organization, key.id);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(TAKEN);
    expect(await publishUnsigned(partner, externalPlantId)).toMatchObject(TAKEN);
  });

  it('of the plants has one that is gone commanded no more [C-7.1]', async () => {
    const { organization, plant, key, partner } = await openReader();
    await changeAndTellVhost(organization, key.id, removePlant(plant));
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(NO_SITE);
  });

  it('is in force after a sleep, and read no more (rule 9)', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    await changeAndTellVhost(organization, key.id, withSignatures);
    await sleep(key);
    const reads = watchRegistry();
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
    expect(reads.count).toBe(0);
  });

  it('is in force after a sleep, also when the plants have become too many for one row (rule 9)', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    // It looks at every plant of the organization for each that comes: here that only takes time.
    await env.DB.exec('DROP TRIGGER plants_ean_insert');
    await env.DB.prepare(
      `WITH RECURSIVE counter(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter WHERE n < 10000)
       INSERT INTO plants (id, organization_id, name, external_plant_id, created_at_ms)
       SELECT 'plant-' || substr(?1, 1, 8) || '-' || printf('%021d', n), ?1, 'Plant', printf('%064d', n), 1 FROM counter`,
    )
      .bind(organization.id)
      .run();
    await changeAndTellVhost(organization, key.id, withSignatures);
    await sleep(key);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
  });
});

describe('a change that a vhost is told of', () => {
  it('wakes one that sleeps (rule 8)', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    const version = await changeRegistry(organization, withSignatures);
    await sleep(key);
    await tellVhost(key.id, version);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
  });

  it('reads D1 once, and not at all where it is taken already (rule 9)', async () => {
    const { organization, key, withSignatures } = await openReader();
    const reads = watchRegistry();
    const version = await changeRegistry(organization, withSignatures);
    await tellVhost(key.id, version);
    expect(reads.count).toBe(1);
    await tellVhost(key.id, version);
    await sleep(key);
    await tellVhost(key.id, version);
    expect(reads.count).toBe(1);
  });

  it('after a later one that it has taken changes nothing any more (rule 10)', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    const version = await changeRegistry(organization);
    await changeAndTellVhost(organization, key.id, withSignatures);
    await tellVhost(key.id, version);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
  });

  it('is taken though its version is lower than the copy: D1 was restored to what it was before (rule 7)', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    for (let change = 0; change < 3; change++) await changeAndTellVhost(organization, key.id);
    await restoreVersion(organization, 1);
    await changeAndTellVhost(organization, key.id, withSignatures);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
  });

  it('is one of many at once: D1 is read by one reading at a time, and all are taken (rule 4)', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    const reads = watchRegistry();
    const versions: number[] = [];
    for (let change = 0; change < 8; change++) versions.push(await changeRegistry(organization));
    versions.push(await changeRegistry(organization, withSignatures));
    await Promise.all(versions.map((version) => tellVhost(key.id, version)));
    expect(reads.mostAtOnce).toBe(1);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
  });

  it('is not mistaken for what a reading finds that began before it (rule 6)', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    const { reads, untilHeld, release } = holdNextAnswer();
    setClock(START_MS + AGEING_MS);
    await partner.quiet();
    await untilHeld();
    const version = await changeRegistry(organization, withSignatures);
    let isTaken = false;
    const told = tellVhost(key.id, version).then(() => {
      isTaken = true;
    });
    await tellVhost(key.id, version - 1);
    expect([isTaken, reads.count]).toEqual([false, 1]);
    release();
    await told;
    expect(reads.count).toBe(2);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
  });

  it('is taken though the reading that was under way fails (rule 7)', async () => {
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
    const told = tellVhost(key.id, version);
    // Behind it, and taken already: when this returns, the one before it waits for the reading.
    await tellVhost(key.id, version - 1);
    failing.reject(new Error('D1_ERROR: the test wants it so'));
    await told;
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
  });

  it('is read, whatever version it has, where older code stored a copy without one (rule 9)', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    await vhostRows(key, `UPDATE fact SET value = json_remove(value, '$.version') WHERE name = 'registry'`);
    await sleep(key);
    const version = await changeRegistry(organization, withSignatures);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(TAKEN);
    await tellVhost(key.id, version);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
  });

  it('means nothing to a key that has ended, or that nobody opened: no reading, no trouble (rule 9)', async () => {
    const { organization, key, withSignatures } = await openReader();
    await vhostOf(key.id).revoke();
    const version = await changeRegistry(organization, withSignatures);
    const reads = watchRegistry();
    await tellVhost(key.id, version);
    await tellVhost(crypto.randomUUID(), version);
    expect(reads.count).toBe(0);
  });
});

describe('a change that a vhost cannot take', () => {
  it.each([
    ['does not answer', hangRegistry],
    ['fails', failRegistry],
  ])(
    'since D1 %s is trouble for who tells it; what decided before decides, until it is told again (rule 7)',
    async (_, trouble) => {
      const { organization, plant, key, partner, withSignatures } = await openReader();
      const version = await changeRegistry(organization, withSignatures);
      trouble();
      await expect(tellVhost(key.id, version)).rejects.toThrow();
      expect(await publishUnsigned(partner, plant.id)).toMatchObject(TAKEN);
      vi.restoreAllMocks();
      await tellVhost(key.id, version);
      expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
    },
  );

  it('since D1 answers an older version is trouble: it is not taken (rule 7)', async () => {
    const { organization, key } = await openReader();
    const version = await changeRegistry(organization);
    await expect(tellVhost(key.id, version + 1)).rejects.toThrow(/version/);
    await tellVhost(key.id, version);
  });

  it('since its own disk fails is trouble, too, and taken when it is told again (rule 3)', async () => {
    const { organization, plant, key, partner, withSignatures } = await openReader();
    const version = await changeRegistry(organization, withSignatures);
    const breaking = `CREATE TRIGGER broken BEFORE INSERT ON fact WHEN NEW.name = 'registry'
      BEGIN SELECT RAISE(ABORT, 'broken'); END`;
    await vhostRows(key, breaking);
    await expect(tellVhost(key.id, version)).rejects.toThrow();
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(TAKEN);
    await vhostRows(key, 'DROP TRIGGER broken');
    await tellVhost(key.id, version);
    expect(await storedVersion(key)).toBe(version);
    expect(await publishUnsigned(partner, plant.id)).toMatchObject(UNSIGNED);
  });
});
