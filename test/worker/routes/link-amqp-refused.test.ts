/** How an AMQP client's upgrade is refused once its bridge is proven, and who is told [C-5.6], [C-6.3]. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { composeApiKey } from '../../../protocol/api-key.ts';
import type { ApiKeyScope } from '../../../protocol/scopes.ts';
import { dialAmqp, dialRows, lastUsedAtMs, rowCounts } from '../../support/workerd/door.ts';
import { expectError } from '../../support/workerd/rest.ts';
import {
  createKey,
  createOrganization,
  type Key,
  type Organization,
  vhostOf,
} from '../../support/workerd/world.ts';

const ADDRESS = '192.0.2.7';

beforeEach(() => {
  // The first moment of a minute: refusals of one minute share a row.
  vi.useFakeTimers({ toFake: ['Date'], now: Date.parse('2030-03-05T09:00:00.000Z') });
});

afterEach(() => {
  vi.useRealTimers();
});

/** A dial that must be refused, and the audit row that tells of it. */
interface Refusal {
  title: string;
  status: 401 | 403;
  prepare: (organization: Organization) => Promise<{ key: Key; username?: string; plaintext?: string }>;
}

const REFUSALS: Refusal[] = [
  {
    title: 'a key that nobody has',
    status: 401,
    prepare: async (organization) => ({
      key: await createKey(organization),
      plaintext: composeApiKey(crypto.getRandomValues(new Uint8Array(128))),
    }),
  },
  {
    title: 'a mistyped key',
    status: 401,
    prepare: async (organization) => ({ key: await createKey(organization), plaintext: 'sw_mistyped' }),
  },
  {
    title: 'a revoked key',
    status: 401,
    prepare: async (organization) => ({ key: await createKey(organization, { revokedAtMs: Date.now() }) }),
  },
  {
    title: 'an expired key',
    status: 401,
    prepare: async (organization) => ({
      key: await createKey(organization, { expiresAtMs: Date.now() - 1 }),
    }),
  },
  ...(['vcp:read', 'vcp:write:setpoint', 'trading:write'] satisfies ApiKeyScope[]).map(
    (scope): Refusal => ({
      title: `a key with the scope ${scope} and no connect scope`,
      status: 403,
      prepare: async (organization) => ({ key: await createKey(organization, { scopes: [scope] }) }),
    }),
  ),
  {
    title: 'an address outside allowedIps',
    status: 403,
    prepare: async (organization) => ({
      key: await createKey(organization, { allowedIps: ['198.51.100.0/24', '2001:db8::/32'] }),
    }),
  },
];

describe('an AMQP dial that is refused', () => {
  it.each(REFUSALS)(
    'for $title gets the envelope of $status and one audit row a minute (spec: partner.connection_refused)',
    async ({ status, prepare }) => {
      const organization = await createOrganization();
      const { key, plaintext = key.key } = await prepare(organization);
      const untouched = await rowCounts(vhostOf(key.id));
      const connection = crypto.randomUUID();
      for (const proof of [{ connection }, { connection }, { connection: crypto.randomUUID() }]) {
        const response = await dialAmqp(
          organization,
          { key: plaintext },
          { proof: { ...proof, address: ADDRESS } },
        );
        expect(response.webSocket).toBeNull();
        await expectError(response, status, status === 401 ? 'UNAUTHORIZED' : 'FORBIDDEN');
      }
      const refused = {
        event: 'partner.connection_refused',
        actor_type: 'API_KEY',
        actor: organization.slug,
        actor_name: null,
        address: ADDRESS,
        target_type: 'API_KEY',
        target: null,
        outcome: 'FAILURE',
        details: expect.stringContaining('"reason"'),
      };
      const rows = await dialRows(organization.id);
      expect(rows).toEqual([refused]);
      expect(JSON.stringify(rows)).not.toContain(plaintext);
      expect(await lastUsedAtMs(key.id)).toBeNull();
      expect(await rowCounts(vhostOf(key.id))).toEqual(untouched);
    },
  );

  it('answers an unknown, a revoked and an expired key in the same words (spec: States, API key)', async () => {
    const organization = await createOrganization();
    const bodies = new Set<string>();
    for (const { status, prepare } of REFUSALS) {
      if (status !== 401) continue;
      const { key, plaintext = key.key } = await prepare(organization);
      bodies.add(await (await dialAmqp(organization, { key: plaintext })).text());
    }
    expect(bodies.size).toBe(1);
  });

  it('under any other user name than the slug gets 401, the key id among them (spec: AMQP)', async () => {
    const [organization, other] = [await createOrganization(), await createOrganization()];
    const key = await createKey(organization);
    const { slug } = organization;
    const usernames = [
      key.id,
      `partner-${key.id}`,
      other.slug,
      slug.toUpperCase(),
      `${slug}.`,
      ` ${slug}`,
      '*',
      '',
    ];
    for (const username of usernames) {
      await expectError(await dialAmqp(organization, key, { username }), 401, 'UNAUTHORIZED');
    }
    expect(await lastUsedAtMs(key.id)).toBeNull();
  });

  it('under another organization’s slug is told to the key’s own, and not to the other [C-8.4]', async () => {
    const [organization, other] = [await createOrganization(), await createOrganization()];
    await dialAmqp(organization, await createKey(organization), { username: other.slug });
    expect(await dialRows(organization.id)).toMatchObject([
      { event: 'partner.connection_refused', actor: other.slug, outcome: 'FAILURE' },
    ]);
    expect(await dialRows(other.id)).toEqual([]);
  });

  it('under the key id is told to the key’s own organization (bad input: AMQP)', async () => {
    const organization = await createOrganization();
    const key = await createKey(organization);
    await dialAmqp(organization, key, { username: key.id });
    expect(await dialRows(organization.id)).toMatchObject([{ event: 'partner.connection_refused' }]);
  });

  it('for a key that its vhost has revoked already, whatever D1 says, gets 401 (rule 6)', async () => {
    const organization = await createOrganization();
    const key = await createKey(organization);
    await vhostOf(key.id).revoke();
    await expectError(await dialAmqp(organization, key), 401, 'UNAUTHORIZED');
    expect(await lastUsedAtMs(key.id)).toBeNull();
  });

  it('by the vhost has its audit row as well (spec: partner.connection_refused)', async () => {
    const organization = await createOrganization();
    const key = await createKey(organization);
    await vhostOf(key.id).revoke();
    await dialAmqp(organization, key);
    expect(await dialRows(organization.id)).toMatchObject([{ event: 'partner.connection_refused' }]);
  });

  it('as the eleventh live one of a key gets 409 CONFLICT, which concerns no other key [C-6.3]', async () => {
    const organization = await createOrganization();
    const key = await createKey(organization);
    for (let count = 0; count < 10; count++) {
      expect((await dialAmqp(organization, key)).status).toBe(101);
    }
    await expectError(await dialAmqp(organization, key), 409, 'CONFLICT');
    expect((await dialAmqp(organization, await createKey(organization))).status).toBe(101);
  });

  it('with a password that holds colons is read to its end (spec: AMQP)', async () => {
    const organization = await createOrganization();
    const key = await createKey(organization);
    const response = await dialAmqp(organization, { key: `${key.key}:` });
    await expectError(response, 401, 'UNAUTHORIZED');
  });
});
