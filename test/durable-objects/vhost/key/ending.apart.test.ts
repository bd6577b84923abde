/** The end of a key: only its Vhost writes it to D1. A key whose creation failed leaves nothing. */
import { evictDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { grantOf } from '#workerd/door.ts';
import { dialVhost } from '#workerd/links.ts';
import { vhostRows } from '#workerd/partner.ts';
import { RegistryRows } from '#workerd/registry-rows.ts';
import { setScene } from '#workerd/scene.ts';
import { HOUR, holdClock, passVhostTime, SECOND, START_MS, vhostAlarmAt } from '#workerd/site-clock.ts';
import { createKey, createOrganization, type Key, vhostOf } from '#workerd/world.ts';

holdClock();

interface Ended {
  revokedAtMs: number | null;
  updatedAtMs: number;
}

/** The key's row in D1. */
async function endOf({ id }: { id: string }): Promise<Ended | null> {
  return await env.DB.prepare(
    'SELECT revoked_at_ms AS revokedAtMs, updated_at_ms AS updatedAtMs FROM api_keys WHERE id = ?',
  )
    .bind(id)
    .first<Ended>();
}

/** Decides the result of D1 writes until `vi.restoreAllMocks()`; returns the moments of the attempts. */
function whenWritten(write: () => Promise<never>): number[] {
  const tries: number[] = [];
  const prototype = Object.getPrototypeOf(env.DB) as D1Database;
  vi.spyOn(console, 'warn').mockReturnValue(undefined);
  vi.spyOn(prototype, 'batch').mockImplementation(() => {
    tries.push(Date.now());
    return write();
  });
  return tries;
}

const TROUBLES: Record<string, () => Promise<never>> = {
  fails: () => Promise.reject(new Error('D1_ERROR: the test wants it so')),
  hangs: () => new Promise(() => {}),
};

async function expectShut(id: string): Promise<void> {
  const refused = await dialVhost(id);
  expect(await refused.json()).toMatchObject({ statusCode: 401 });
  expect(await vhostOf(id).receivePassing('site', [])).toBe('gone');
}

describe('the revocation of a key', () => {
  it('is written to D1 once, after five seconds, with the time of the revocation [C-5.6]', async () => {
    const key = await createKey(await createOrganization());
    await vhostOf(key.id).revoke(key.id);
    expect(await vhostAlarmAt(key)).toBe(START_MS + 5 * SECOND);
    await passVhostTime(key, 5 * SECOND - 1);
    expect(await endOf(key)).toMatchObject({ revokedAtMs: null });
    await passVhostTime(key, 1);
    await vi.waitFor(async () =>
      expect(await endOf(key)).toEqual({ revokedAtMs: START_MS, updatedAtMs: START_MS }),
    );
    const tries = whenWritten(TROUBLES.fails as () => Promise<never>);
    await passVhostTime(key, HOUR);
    expect([tries, await vhostAlarmAt(key)]).toEqual([[], null]);
  });

  it('is written to D1 even when the caller passes no key id [C-5.6]', async () => {
    const key = await createKey(await createOrganization());
    await vhostOf(key.id).revoke();
    await passVhostTime(key, 5 * SECOND);
    await vi.waitFor(async () => expect(await endOf(key)).toMatchObject({ revokedAtMs: START_MS }));
  });

  it('leaves an earlier revocation in D1 as it is [C-5.6]', async () => {
    const key = await createKey(await createOrganization(), { revokedAtMs: 7 });
    const before = await endOf(key);
    vi.setSystemTime(START_MS + HOUR);
    await vhostOf(key.id).revoke(key.id);
    await passVhostTime(key, HOUR);
    expect(await endOf(key)).toEqual(before);
    expect([before?.revokedAtMs, await vhostAlarmAt(key)]).toEqual([7, null]);
  });

  it.each(Object.keys(TROUBLES))('is retried with longer pauses while D1 %s [C-5.6]', async (trouble) => {
    const key = await createKey(await createOrganization());
    const tries = whenWritten(TROUBLES[trouble] as () => Promise<never>);
    await vhostOf(key.id).revoke(key.id);
    await passVhostTime(key, HOUR);
    const pauses = tries.map((atMs, index) => atMs - (tries[index - 1] ?? START_MS));
    expect(pauses[0]).toBe(5 * SECOND);
    expect(pauses).toEqual([...pauses].sort((a, b) => a - b));
    expect(pauses[2]).toBeGreaterThan(pauses[1] ?? 0);
    // Each attempt waits five seconds for its answer; the longest pause after it is five minutes.
    expect(pauses.at(-1)).toBe(305 * SECOND);
    expect(pauses.length).toBeGreaterThan(10);

    vi.restoreAllMocks();
    await passVhostTime(key, 305 * SECOND);
    await vi.waitFor(async () => expect(await endOf(key)).toMatchObject({ revokedAtMs: START_MS }));
    await passVhostTime(key, HOUR);
    expect(await vhostAlarmAt(key)).toBeNull();
  });

  it('is still written, with its original time, after the object was evicted [C-5.6]', async () => {
    const key = await createKey(await createOrganization());
    const tries = whenWritten(TROUBLES.fails as () => Promise<never>);
    await vhostOf(key.id).revoke(key.id);
    await passVhostTime(key, 30 * SECOND);
    await evictDurableObject(vhostOf(key.id));
    expect(tries.length).toBeGreaterThan(1);
    vi.restoreAllMocks();
    await passVhostTime(key, HOUR);
    await vi.waitFor(async () => expect(await endOf(key)).toMatchObject({ revokedAtMs: START_MS }));
    await evictDurableObject(vhostOf(key.id));
    expect(await vhostAlarmAt(key)).toBeNull();
  });

  it('is written, too, if the key was never opened, and the key stays revoked when it is opened [C-5.6]', async () => {
    const rows = await RegistryRows.create();
    const id = String((await rows.insert('api_keys')).id);
    await vhostOf(id).revoke(id);
    await passVhostTime({ id }, 5 * SECOND);
    await vi.waitFor(async () => expect(await endOf({ id })).toMatchObject({ revokedAtMs: START_MS }));
    await vhostOf(id).open(grantOf(id, rows.organization));
    await expectShut(id);
    await evictDurableObject(vhostOf(id));
    await expectShut(id);
  });
});

describe('a key that is discarded', () => {
  const factsOf = async (key: Key) =>
    (await vhostRows<{ name: string; value: string }>(key, 'SELECT name, value FROM fact')).filter(
      ({ value }) => value !== 'null',
    );

  it('leaves no settings, messages or alarm in its vhost, and its client is disconnected [C-5.4]', async () => {
    const { organization, key, partner } = await setScene({ plant: true, partner: 'connected', events: 3 });
    expect(await partner.readyCount('event.status')).toBe(3);
    await vhostOf(key.id).discard();
    expect(await partner.link.untilClosed()).toMatchObject({ reason: 'key ended' });
    await expectShut(key.id);
    const facts = await factsOf(key);
    expect(facts.map(({ name }) => name)).not.toContain('key');
    expect(JSON.stringify(facts)).not.toContain(organization.slug);
    for (const table of ['chunk', 'queue', 'consumer', 'connection', 'received']) {
      expect([table, await vhostRows(key, `SELECT * FROM ${table}`)]).toEqual([table, []]);
    }
    // The discard also removes the agenda's work, and writes nothing to D1, which has no such key.
    await passVhostTime(key, HOUR);
    expect([await vhostAlarmAt(key), (await endOf(key))?.revokedAtMs]).toEqual([null, null]);
  });

  it("leaves no copy of its organization's plants [C-5.4]", async () => {
    const { key, partner, plant } = await setScene({ plant: true, partner: 'connected' });
    await vi.waitFor(async () => expect(JSON.stringify(await factsOf(key))).toContain(plant.id));
    await vhostOf(key.id).discard();
    await partner.link.untilClosed();
    expect((await factsOf(key)).map(({ name }) => name)).toEqual(['revoked']);
  });

  it('accepts no client after another opening or a sleep, whether it was opened before or not [C-5.4]', async () => {
    const organization = await createOrganization();
    for (const id of [(await createKey(organization)).id, crypto.randomUUID()]) {
      await vhostOf(id).discard();
      await expectShut(id);
      await vhostOf(id).open(grantOf(id, organization));
      await expectShut(id);
      await evictDurableObject(vhostOf(id));
      await expectShut(id);
    }
  });
});
