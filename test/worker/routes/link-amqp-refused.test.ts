/** How an AMQP dial with a valid proof is refused, and where it is audited [C-5.6], [C-6.3]. */
import { unknownKey } from '#workerd/client.ts';
import { dialAmqp, dialRows, lastUsedAtMs, rowCounts } from '#workerd/door.ts';
import { holdClock } from '#workerd/site-clock.ts';
import { describe, expect, expectError, expectSameError, it } from '#workerd/worker-test.ts';
import { createOrganization, type KeyOptions, vhostOf } from '#workerd/world.ts';
import { apiKeyPrefix } from '../../../protocol/api-key.ts';
import { STATE_HEADER } from '../../../protocol/link/proof.ts';
import type { ApiKeyScope } from '../../../protocol/scopes.ts';

const ADDRESS = '192.0.2.7';

// The clock is stopped at the start of a minute: refusals of one minute share an audit row.
holdClock();

/** A dial that must be refused: with this key, or with another text in its place. */
interface Refusal {
  title: string;
  status: 401 | 403;
  /** The reason in the audit row. */
  reason: string;
  /** The audit row does not name the key, because the text has no known prefix [C-14.3]. */
  isUnnamed?: true;
  options?: () => KeyOptions;
  plaintext?: (key: string) => string;
}

const UNKNOWN = { status: 401, reason: 'unknown key' } as const;
const SCOPELESS: ApiKeyScope[] = ['vcp:read', 'vcp:write:setpoint', 'trading:write'];
const REFUSALS: Refusal[] = [
  { title: 'an unknown key', ...UNKNOWN, isUnnamed: true, plaintext: unknownKey },
  { title: 'text that is no key', ...UNKNOWN, isUnnamed: true, plaintext: () => 'sw_mistyped' },
  {
    title: 'a key with a typo at its end',
    ...UNKNOWN,
    plaintext: (key) => `${key.slice(0, -1)}${key.endsWith('A') ? 'B' : 'A'}`,
  },
  {
    title: 'a revoked key',
    status: 401,
    reason: 'revoked key',
    options: () => ({ revokedAtMs: Date.now() }),
  },
  {
    title: 'an expired key',
    status: 401,
    reason: 'expired key',
    options: () => ({ expiresAtMs: Date.now() - 1 }),
  },
  ...SCOPELESS.map((scope): Refusal => {
    const title = `a key with the scope ${scope} and no connect scope`;
    return { title, status: 403, reason: 'missing scope', options: () => ({ scopes: [scope] }) };
  }),
  {
    title: 'an address outside allowedIps',
    status: 403,
    reason: 'address',
    options: () => ({ allowedIps: ['198.51.100.0/24', '2001:db8::/32'] }),
  },
];

describe('a refused AMQP dial', () => {
  it.for(REFUSALS)(
    '$title gets $status and one audit row a minute (spec: partner.connection_refused)',
    async ({ status, reason, isUnnamed, options, plaintext: other }, { organization, newKey }) => {
      const key = await newKey(options?.());
      const plaintext = other?.(key.key) ?? key.key;
      const untouched = await rowCounts(vhostOf(key.id));
      const connection = crypto.randomUUID();
      for (const proof of [{ connection }, { connection }, { connection: crypto.randomUUID() }]) {
        const full = { proof: { ...proof, address: ADDRESS } };
        const response = await dialAmqp(organization, { key: plaintext }, full);
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
        target: isUnnamed ? null : key.id,
        outcome: 'FAILURE',
        details: JSON.stringify({ reason, ...(isUnnamed ? {} : { keyPrefix: apiKeyPrefix(key.key) }) }),
        count: 3,
      };
      const rows = await dialRows(organization.id);
      expect(rows).toEqual([refused]);
      expect(JSON.stringify(rows)).not.toContain(plaintext);
      expect(await lastUsedAtMs(key.id)).toBeNull();
      expect(await rowCounts(vhostOf(key.id))).toEqual(untouched);
    },
  );

  it('gets the same 401 without the key or its slug, whatever the state of the key (spec: States, API key)', async ({
    organization,
    newKey,
  }) => {
    const answers = REFUSALS.filter(({ status }) => status === 401).map(async ({ options, plaintext }) => {
      const { key } = await newKey(options?.());
      const text = plaintext?.(key);
      return text === undefined
        ? await dialAmqp({ ...organization, slug: 'other' }, { key })
        : await dialAmqp(organization, { key: text });
    });
    await expectSameError(answers, 401, 'UNAUTHORIZED');
  });

  it.for<[string, KeyOptions, string]>([
    ['a revoked key', { revokedAtMs: 1 }, 'The API key has been revoked: use another one'],
    ['an expired key', { expiresAtMs: 1 }, 'The API key has expired: use another one'],
  ])(
    'learns the reason with %s and its slug, which the bridge may show',
    async ([_what, options, message], { organization, newKey }) => {
      const { key } = await newKey(options);
      const response = await dialAmqp(organization, { key });
      expect(response.headers.get(STATE_HEADER)).toBe('refused');
      expect((await expectError(response, 401, 'UNAUTHORIZED')).message).toBe(message);
    },
  );

  it('any other user name than the slug gets 401 (spec: AMQP)', async ({ organization, key }) => {
    const [{ slug }, foreign] = [organization, await createOrganization()];
    const usernames = [key.id, `partner-${key.id}`, foreign.slug, slug.toUpperCase(), `${slug}.`, ` ${slug}`];
    for (const username of [...usernames, '*', '']) {
      await expectError(await dialAmqp(organization, key, { username }), 401, 'UNAUTHORIZED');
    }
    expect(await lastUsedAtMs(key.id)).toBeNull();
  });

  it('a dial with the slug of another organization is audited in the key’s organization [C-8.4]', async ({
    organization,
    key,
  }) => {
    const foreign = await createOrganization();
    await dialAmqp(organization, key, { username: foreign.slug });
    const row = { event: 'partner.connection_refused', actor: foreign.slug, outcome: 'FAILURE' };
    expect(await dialRows(organization.id)).toMatchObject([row]);
    expect(await dialRows(foreign.id)).toEqual([]);
  });

  it('a key that is revoked in its Vhost and not in D1 gets 401 (rule 6)', async ({ organization, key }) => {
    await vhostOf(key.id).revoke();
    await expectError(await dialAmqp(organization, key), 401, 'UNAUTHORIZED');
    expect(await lastUsedAtMs(key.id)).toBeNull();
  });

  it('the eleventh connection of a key gets 409 [C-6.3]', async ({ organization, newKey, key }) => {
    for (let count = 0; count < 10; count++) {
      expect((await dialAmqp(organization, key)).status).toBe(101);
    }
    await expectError(await dialAmqp(organization, key), 409, 'CONFLICT');
    expect((await dialAmqp(organization, await newKey())).status).toBe(101);
  });

  it('a key with a colon after it gets 401: the colon is part of the password (spec: AMQP)', async ({
    organization,
    key,
  }) => {
    const response = await dialAmqp(organization, { key: `${key.key}:` });
    await expectError(response, 401, 'UNAUTHORIZED');
  });
});
