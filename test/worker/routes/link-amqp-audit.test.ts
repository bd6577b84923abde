/** Refused logins are audited in one row a minute for each organization, user name, address and reason. */
import { vi } from 'vitest';
import { unknownKey } from '#workerd/client.ts';
import { rowsFrom } from '#workerd/d1.ts';
import { dialAmqp } from '#workerd/door.ts';
import { openLink, openVhost } from '#workerd/links.ts';
import { holdClock, MINUTE, START_MS } from '#workerd/site-clock.ts';
import { describe, expect, it } from '#workerd/worker-test.ts';
import { createOrganization, vhostOf } from '#workerd/world.ts';

const ADDRESS = '192.0.2.7';

holdClock();

interface Refusal {
  event: string;
  actor: string;
  address: string | null;
  reason: string;
  count: number;
}

/** The refused logins of an organization in the audit log, oldest first. */
async function refusals(organizationId: string): Promise<Refusal[]> {
  return await rowsFrom<Refusal>(
    `SELECT event, actor, address, json_extract(details, '$.reason') AS reason, count FROM audit_events
     WHERE organization_id = ? AND event = 'partner.connection_refused' ORDER BY created_at_ms, id`,
    organizationId,
  );
}

const newUnknown = () => ({ key: unknownKey() });

describe('refused logins', () => {
  it('share one audit row with their count within one minute (spec: partner.connection_refused)', async ({
    organization,
  }) => {
    for (let attempt = 0; attempt < 7; attempt++) {
      vi.setSystemTime(START_MS + attempt * 8_000);
      expect((await dialAmqp(organization, newUnknown(), { proof: { address: ADDRESS } })).status).toBe(401);
    }
    const refusal = { actor: organization.slug, address: ADDRESS, reason: 'unknown key', count: 7 };
    const event = 'partner.connection_refused';
    expect(await refusals(organization.id)).toEqual([{ event, ...refusal }]);
  });

  it('are all counted in one audit row, even if they are concurrent [C-6.3]', async ({ organization }) => {
    await Promise.all(Array.from({ length: 20 }, () => dialAmqp(organization, newUnknown())));
    expect(await refusals(organization.id)).toMatchObject([{ count: 20 }]);
  });

  it('from sixty addresses write ten rows a minute: the tenth row counts all further ones [C-14.6]', async ({
    organization,
  }) => {
    for (let address = 1; address <= 60; address++)
      await dialAmqp(organization, newUnknown(), { proof: { address: `192.0.2.${address}` } });
    await dialAmqp(organization, newUnknown(), { proof: { address: '192.0.2.1' } });
    const rows = await refusals(organization.id);
    expect(rows).toHaveLength(10);
    const counts = Object.fromEntries(rows.map(({ address, count }) => [address ?? 'several', count]));
    expect(counts).toMatchObject({ '192.0.2.1': 2, '192.0.2.9': 1, several: 51 });
    vi.setSystemTime(START_MS + MINUTE);
    await dialAmqp(organization, newUnknown(), { proof: { address: '192.0.2.60' } });
    expect(await refusals(organization.id)).toHaveLength(11);
  });

  it('have another row in the next minute [C-6.3]', async ({ organization }) => {
    for (const atMs of [START_MS, START_MS + MINUTE - 1, START_MS + MINUTE, START_MS + 5 * MINUTE]) {
      vi.setSystemTime(atMs);
      await dialAmqp(organization, newUnknown());
    }
    expect((await refusals(organization.id)).map(({ count }) => count)).toEqual([2, 1, 1]);
  });

  it('by another address, name or reason have another row [C-6.3]', async ({ organization, newKey, key }) => {
    const scopeless = await newKey({ scopes: ['vcp:read'] });
    const guarded = await newKey({ allowedIps: ['198.51.100.0/24'] });
    for (let repeat = 0; repeat < 2; repeat++) {
      await dialAmqp(organization, newUnknown(), { proof: { address: '192.0.2.7' } });
      await dialAmqp(organization, newUnknown(), { proof: { address: '192.0.2.8' } });
      await dialAmqp(organization, key, { username: key.id, proof: { address: '192.0.2.7' } });
      await dialAmqp(organization, scopeless, { proof: { address: '192.0.2.7' } });
      await dialAmqp(organization, guarded, { proof: { address: '192.0.2.7' } });
    }
    const rows = await refusals(organization.id);
    expect(rows.map(({ actor, address, reason, count }) => [actor, address, reason, count]).sort()).toEqual(
      [
        [key.id, '192.0.2.7', 'user name', 2],
        [organization.slug, '192.0.2.7', 'address', 2],
        [organization.slug, '192.0.2.7', 'unknown key', 2],
        [organization.slug, '192.0.2.7', 'missing scope', 2],
        [organization.slug, '192.0.2.8', 'unknown key', 2],
      ].sort(),
    );
  });

  it('have separate rows in two organizations [C-8.4]', async ({ organization }) => {
    const second = await createOrganization();
    for (const one of [organization, second, second]) await dialAmqp(one, newUnknown());
    expect(await refusals(organization.id)).toMatchObject([{ count: 1 }]);
    expect(await refusals(second.id)).toMatchObject([{ count: 2 }]);
  });

  it('over the connection limit are audited, too [C-6.3]', async ({ organization, key }) => {
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

  it('are audited, too, if the Vhost refuses them, as its key ended [C-6.3]', async ({
    organization,
    key,
  }) => {
    await vhostOf(key.id).revoke();
    for (let repeat = 0; repeat < 3; repeat++) await dialAmqp(organization, key);
    expect(await refusals(organization.id)).toMatchObject([{ reason: 'key ended', count: 3 }]);
  });

  it('are audited, too, if they open another vhost than the key’s [C-6.3]', async ({ organization, key }) => {
    for (let repeat = 0; repeat < 3; repeat++) {
      const { webSocket } = await dialAmqp(organization, key, { proof: { address: ADDRESS } });
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
  it('has its own audit row, apart from refused ones, and a second login adds nothing to it [C-8.4]', async ({
    organization,
    key,
  }) => {
    await dialAmqp(organization, newUnknown());
    for (let login = 0; login < 2; login++)
      await openVhost(openLink(await dialAmqp(organization, key)), `partner-${key.id}`);
    const sql = `SELECT event, count FROM audit_events WHERE organization_id = ? AND actor_type <> 'USER' ORDER BY event`;
    const rows = ['partner.connected', 'partner.connection_refused'].map((event) => ({ event, count: 1 }));
    await vi.waitFor(async () => expect(await rowsFrom(sql, organization.id)).toEqual(rows));
  });
});
