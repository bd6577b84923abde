/** The organization's copy decides while it is younger than a minute; an older one is read anew first (rule 7). */
import { evictDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { commandLog, eventOf, type Partner, setpoint } from '../../../support/workerd/partner.ts';
import { openPartnerWithPlant } from '../../../support/workerd/partner-scenes.ts';
import { type Organization, vhostOf } from '../../../support/workerd/world.ts';

const OLD_MS = 61_000;
const YOUNG_MS = 30_000;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] });
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** A partner whose copy was read just now: it has published before. */
async function openReader() {
  const scene = await openPartnerWithPlant();
  const { partner, plant } = scene;
  await partner.consume('event.status', { noAck: true });
  await partner.ask(partner.command(crypto.randomUUID(), 'emergency', { type: 'STOP' }));
  expect(await partner.ask(unsigned(partner, plant.id))).toMatchObject({ kind: 'stored' });
  await partner.delivered(2);
  return scene;
}

/** Accepted unless the organization wants every command signed. */
function unsigned(partner: Partner, siteId: string) {
  return partner.command(siteId, 'site-setpoint', setpoint(), { signingKey: null });
}

async function acknowledged(partner: Partner, siteId: string) {
  const before = partner.deliveries().length;
  expect(await partner.ask(unsigned(partner, siteId))).toMatchObject({ kind: 'stored' });
  const ack = (await partner.delivered(before + 1)).at(-1);
  return ack && eventOf(ack).payload;
}

async function requireSignatures(organization: Organization): Promise<void> {
  await env.DB.prepare('UPDATE organizations SET settings = ? WHERE id = ?')
    .bind(JSON.stringify({ requireSignedCommands: true, publishRatePerSecond: 10_000 }), organization.id)
    .run();
}

/** The registry as every object reads it. */
function registry() {
  return vi.spyOn(Object.getPrototypeOf(env.DB) as D1Database, 'prepare');
}

const isAway = (): never => {
  throw new Error('the registry is away');
};

/** A statement that is never answered. */
function hanging(): D1PreparedStatement {
  const never = () => new Promise<never>(() => {});
  const statement = { bind: () => statement, first: never, run: never, all: never, raw: never };
  return statement as unknown as D1PreparedStatement;
}

describe('a copy that is older than a minute', () => {
  it('does not decide: what an admin changed meanwhile is in force [C-7.2]', async () => {
    const { organization, plant, partner } = await openReader();
    await requireSignatures(organization);
    vi.setSystemTime(Date.now() + OLD_MS);
    expect(await acknowledged(partner, plant.id)).toMatchObject({ status: 'REJECTED' });
  });

  it('does not decide of a plant that is gone: there is no such site [C-7.1]', async () => {
    const { plant, partner } = await openReader();
    await env.DB.batch(
      [
        'DELETE FROM sub_devices WHERE plant_id = ?',
        'DELETE FROM devices WHERE plant_id = ?',
        'DELETE FROM plants WHERE id = ?',
      ].map((sql) => env.DB.prepare(sql).bind(plant.id)),
    );
    vi.setSystemTime(Date.now() + OLD_MS);
    expect(await acknowledged(partner, plant.id)).toMatchObject({
      status: 'REJECTED',
      rejectionCode: 'DEVICE_OFFLINE',
      message: 'no such site',
    });
  });

  it('and cannot be read anew is trouble: the publish is not confirmed, and nothing recorded (rule 7)', async () => {
    const { plant, partner } = await openReader();
    const { total } = await commandLog(plant.id);
    vi.setSystemTime(Date.now() + OLD_MS);
    const prepare = registry().mockImplementation(isAway);
    expect(await partner.ask(unsigned(partner, plant.id))).toMatchObject({ kind: 'unstored' });
    prepare.mockRestore();
    expect((await commandLog(plant.id)).total).toBe(total);
    expect(await acknowledged(partner, plant.id)).not.toMatchObject({ status: 'REJECTED' });
  });

  it('and is read without an answer is trouble after three seconds (rule 7)', async () => {
    const { plant, partner } = await openReader();
    const { total } = await commandLog(plant.id);
    vi.setSystemTime(Date.now() + OLD_MS);
    const prepare = registry().mockImplementation(hanging);
    expect(await partner.ask(unsigned(partner, plant.id))).toMatchObject({ kind: 'unstored' });
    prepare.mockRestore();
    expect((await commandLog(plant.id)).total).toBe(total);
  });

  it('and is read without an answer holds up no frame of another kind (rule 4)', async () => {
    const { plant, partner } = await openReader();
    vi.setSystemTime(Date.now() + OLD_MS);
    registry().mockImplementation(hanging);
    partner.link.send({ ...unsigned(partner, plant.id), seq: 1 });
    await partner.quiet();
    expect(await partner.get('event.alarm')).toMatchObject({ kind: 'got' });
  });

  it('is read once for all that wait for it (rule 9)', async () => {
    const { plant, partner } = await openReader();
    vi.setSystemTime(Date.now() + OLD_MS);
    const prepare = registry();
    await partner.askAll(...Array.from({ length: 20 }, () => unsigned(partner, plant.id)));
    const reads = prepare.mock.calls.filter(([sql]) => /from "organizations"/i.test(sql));
    // The vhost's, and the site's own.
    expect(reads.length).toBeLessThanOrEqual(2);
  });
});

describe('a copy that is younger than a minute', () => {
  it('decides alone: the registry may be away (rule 7)', async () => {
    const { plant, partner } = await openReader();
    vi.setSystemTime(Date.now() + YOUNG_MS);
    registry().mockImplementation(isAway);
    expect(await partner.ask(unsigned(partner, plant.id))).toMatchObject({ kind: 'stored' });
  });

  it('still does after the object has slept: its age is stored (rule 7)', async () => {
    const { key, plant, partner } = await openReader();
    vi.setSystemTime(Date.now() + YOUNG_MS);
    await evictDurableObject(vhostOf(key.id));
    registry().mockImplementation(isAway);
    expect(await partner.ask(unsigned(partner, plant.id))).toMatchObject({ kind: 'stored' });
  });

  it('is as old after a sleep as it was: over a minute it is read anew (rule 7)', async () => {
    const { key, organization, plant, partner } = await openReader();
    vi.setSystemTime(Date.now() + YOUNG_MS);
    await evictDurableObject(vhostOf(key.id));
    expect(await acknowledged(partner, plant.id)).not.toMatchObject({ status: 'REJECTED' });
    await requireSignatures(organization);
    await evictDurableObject(vhostOf(key.id));
    vi.setSystemTime(Date.now() + OLD_MS - YOUNG_MS);
    expect(await acknowledged(partner, plant.id)).toMatchObject({ status: 'REJECTED' });
  });
});
