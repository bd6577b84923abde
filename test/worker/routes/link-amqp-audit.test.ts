/** Refused logins in the audit log: one row a minute for each organization, user name, address and reason, with a count. */
import { env } from 'cloudflare:workers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { composeApiKey } from '../../../protocol/api-key.ts';
import { dialAmqp } from '../../support/workerd/door.ts';
import { createKey, createOrganization, vhostOf } from '../../support/workerd/world.ts';

const ADDRESS = '192.0.2.7';
const MINUTE = 60_000;
/** The first moment of a minute. */
const START_MS = Date.parse('2030-03-05T09:00:00.000Z');

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: START_MS });
});

afterEach(() => {
  vi.useRealTimers();
});

interface Refusal {
  event: string;
  actor: string;
  address: string | null;
  reason: string;
  count: number;
}

/** The refusals of an organization as the audit log has them, oldest first. */
async function refusals(organizationId: string): Promise<Refusal[]> {
  const { results } = await env.DB.prepare(
    `SELECT event, actor, address, json_extract(details, '$.reason') AS reason, count FROM audit_events
     WHERE organization_id = ? AND event = 'partner.connection_refused' ORDER BY created_at_ms, id`,
  )
    .bind(organizationId)
    .all<Refusal>();
  return results;
}

/** A key that nobody has. */
function unknownKey() {
  return { key: composeApiKey(crypto.getRandomValues(new Uint8Array(128))) };
}

describe('refused logins', () => {
  it('of one minute are one row, with their number (spec: partner.connection_refused)', async () => {
    const organization = await createOrganization();
    for (let attempt = 0; attempt < 7; attempt++) {
      vi.setSystemTime(START_MS + attempt * 8_000);
      expect((await dialAmqp(organization, unknownKey(), { proof: { address: ADDRESS } })).status).toBe(401);
    }
    expect(await refusals(organization.id)).toEqual([
      {
        event: 'partner.connection_refused',
        actor: organization.slug,
        address: ADDRESS,
        reason: 'bad key',
        count: 7,
      },
    ]);
  });

  it('that come together are all counted [C-6.3]', async () => {
    const organization = await createOrganization();
    await Promise.all(Array.from({ length: 20 }, () => dialAmqp(organization, unknownKey())));
    expect(await refusals(organization.id)).toMatchObject([{ count: 20 }]);
  });

  it('of the next minute are another row [C-6.3]', async () => {
    const organization = await createOrganization();
    for (const atMs of [START_MS, START_MS + MINUTE - 1, START_MS + MINUTE, START_MS + 5 * MINUTE]) {
      vi.setSystemTime(atMs);
      await dialAmqp(organization, unknownKey());
    }
    const counts = (await refusals(organization.id)).map(({ count }) => count);
    expect(counts).toEqual([2, 1, 1]);
  });

  it('are told apart by address, by user name and by reason [C-6.3]', async () => {
    const organization = await createOrganization();
    const key = await createKey(organization);
    const scopeless = await createKey(organization, { scopes: ['vcp:read'] });
    const guarded = await createKey(organization, { allowedIps: ['198.51.100.0/24'] });
    for (let repeat = 0; repeat < 2; repeat++) {
      await dialAmqp(organization, unknownKey(), { proof: { address: '192.0.2.7' } });
      await dialAmqp(organization, unknownKey(), { proof: { address: '192.0.2.8' } });
      await dialAmqp(organization, key, { username: key.id, proof: { address: '192.0.2.7' } });
      await dialAmqp(organization, scopeless, { proof: { address: '192.0.2.7' } });
      await dialAmqp(organization, guarded, { proof: { address: '192.0.2.7' } });
    }
    const rows = await refusals(organization.id);
    expect(rows.map(({ actor, address, reason, count }) => [actor, address, reason, count]).sort()).toEqual(
      [
        [key.id, '192.0.2.7', 'bad key', 2],
        [organization.slug, '192.0.2.7', 'address', 2],
        [organization.slug, '192.0.2.7', 'bad key', 2],
        [organization.slug, '192.0.2.7', 'missing scope', 2],
        [organization.slug, '192.0.2.8', 'bad key', 2],
      ].sort(),
    );
  });

  it('of two organizations share nothing [C-8.4]', async () => {
    const [organization, other] = [await createOrganization(), await createOrganization()];
    for (const one of [organization, other, other]) await dialAmqp(one, unknownKey());
    expect(await refusals(organization.id)).toMatchObject([{ count: 1 }]);
    expect(await refusals(other.id)).toMatchObject([{ count: 2 }]);
  });

  it('over the limit of live connections are told of alike, one row with their number [C-6.3]', async () => {
    const organization = await createOrganization();
    const key = await createKey(organization);
    const proof = { address: ADDRESS };
    for (let live = 0; live < 10; live++) {
      expect((await dialAmqp(organization, key, { proof })).status).toBe(101);
    }
    for (let over = 0; over < 4; over++) {
      expect((await dialAmqp(organization, key, { proof })).status).toBe(409);
    }
    expect(await refusals(organization.id)).toMatchObject([
      { actor: organization.slug, address: ADDRESS, reason: 'connection limit', count: 4 },
    ]);
  });

  it('by an object that has revoked its key already are told of alike [C-6.3]', async () => {
    const organization = await createOrganization();
    const key = await createKey(organization);
    await vhostOf(key.id).revoke();
    for (let repeat = 0; repeat < 3; repeat++) await dialAmqp(organization, key);
    expect(await refusals(organization.id)).toMatchObject([{ reason: 'key ended', count: 3 }]);
  });

  it('under a vhost that is not theirs are told of alike, version 2 of the link [C-6.3]', async () => {
    const organization = await createOrganization();
    const key = await createKey(organization);
    const headers = { 'sitewire-link': '2' };
    for (let repeat = 0; repeat < 3; repeat++) {
      const { webSocket } = await dialAmqp(organization, key, { headers, proof: { address: ADDRESS } });
      webSocket?.accept();
      webSocket?.send(JSON.stringify([{ kind: 'open', vhost: '/' }]));
      await vi.waitFor(async () =>
        expect(await refusals(organization.id)).toMatchObject([
          { actor: organization.slug, address: ADDRESS, reason: 'vhost', count: repeat + 1 },
        ]),
      );
    }
  });
});

describe('an accepted login', () => {
  it('counts one, and what was refused before it is not touched [C-8.4]', async () => {
    const organization = await createOrganization();
    const key = await createKey(organization);
    await dialAmqp(organization, unknownKey());
    await dialAmqp(organization, key);
    await dialAmqp(organization, key);
    const { results } = await env.DB.prepare(
      `SELECT event, count FROM audit_events WHERE organization_id = ? AND actor_type <> 'USER' ORDER BY event`,
    )
      .bind(organization.id)
      .all();
    expect(results).toEqual([
      { event: 'partner.connected', count: 1 },
      { event: 'partner.connection_refused', count: 1 },
    ]);
  });
});
