/** How an AMQP client's upgrade is accepted: what it answers, what it writes, and when no longer [C-5.6]. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { apiKeyPrefix } from '../../../protocol/api-key.ts';
import { VHOST_HEADER } from '../../../protocol/link/proof.ts';
import type { ApiKeyScope } from '../../../protocol/scopes.ts';
import { basic, dialAmqp, dialRequest, dialRows, lastUsedAtMs } from '../../support/workerd/door.ts';
import { openLink } from '../../support/workerd/links.ts';
import { changeRegistry, revokeKey } from '../../support/workerd/registry-changes.ts';
import { expectError, settle } from '../../support/workerd/rest.ts';
import { createKey, createOrganization } from '../../support/workerd/world.ts';

const ADDRESS = '192.0.2.7';

afterEach(() => {
  vi.useRealTimers();
});

describe('an AMQP dial that is accepted', () => {
  it('answers 101 with the key’s vhost, marks the key as used and is audited once (spec: partner.connected)', async () => {
    const organization = await createOrganization();
    const key = await createKey(organization);
    const before = Date.now();
    for (let repeat = 0; repeat < 3; repeat++) {
      const response = await dialAmqp(organization, key, { proof: { address: ADDRESS } });
      expect([response.status, response.headers.get(VHOST_HEADER)]).toEqual([101, `partner-${key.id}`]);
      expect(response.webSocket).not.toBeNull();
    }
    expect(await lastUsedAtMs(key.id)).toBeGreaterThanOrEqual(before);
    expect(await dialRows(organization.id)).toEqual([
      {
        event: 'partner.connected',
        actor_type: 'API_KEY',
        actor: key.id,
        actor_name: apiKeyPrefix(key.key),
        address: ADDRESS,
        target_type: 'API_KEY',
        target: key.id,
        outcome: 'SUCCESS',
        details: '{}',
      },
    ]);
  });

  it('is audited once for each key, also when its first connections come together (spec: partner.connected)', async () => {
    const organization = await createOrganization();
    const [first, second] = [await createKey(organization), await createKey(organization)];
    const responses = await Promise.all(
      [first, first, first, second].map((key) => dialAmqp(organization, key)),
    );
    expect(responses.map((response) => response.status)).toEqual([101, 101, 101, 101]);
    const rows = await dialRows(organization.id);
    expect(rows.map((row) => [row.event, row.target]).sort()).toEqual(
      [first, second].map((key) => ['partner.connected', key.id]).sort(),
    );
  });

  it.each<{ scopes: ApiKeyScope[] }>([
    { scopes: ['vcp:connect'] },
    { scopes: ['trading:connect'] },
    { scopes: ['vcp:connect', 'vcp:read'] },
  ])('needs a connect scope and no other: $scopes (spec: Scopes)', async ({ scopes }) => {
    const organization = await createOrganization();
    const key = await createKey(organization, { scopes });
    expect((await dialAmqp(organization, key)).status).toBe(101);
  });

  it('compares allowedIps with the client’s address in the proof, not with the bridge’s own [C-4.2]', async () => {
    const organization = await createOrganization();
    const key = await createKey(organization, { allowedIps: ['192.0.2.0/24', '2001:db8::/32'] });
    const headers = { 'cf-connecting-ip': '203.0.113.9', 'x-forwarded-for': '203.0.113.9' };
    for (const address of ['192.0.2.7', '::ffff:192.0.2.7', '2001:db8::1']) {
      expect((await dialAmqp(organization, key, { proof: { address }, headers })).status).toBe(101);
    }
    const spoofed = { 'cf-connecting-ip': '192.0.2.7', 'x-forwarded-for': '192.0.2.7' };
    const response = await dialAmqp(organization, key, {
      proof: { address: '203.0.113.9' },
      headers: spoofed,
    });
    await expectError(response, 403, 'FORBIDDEN');
  });

  it('carries the frames of its client’s vhost from there on (one idea)', async () => {
    const organization = await createOrganization();
    const key = await createKey(organization);
    const link = openLink<object, { kind: string }>(await dialAmqp(organization, key));
    const queue = `vcp.${organization.slug}.event.status`;
    link.send({ kind: 'get', seq: 5, channel: 1, queue, noAck: true });
    expect(await link.next((frame) => frame.kind === 'got')).toMatchObject({ seq: 5, delivery: null });
  });

  it('is refused on the next dial once D1 has the key revoked, or its time has come [C-5.6]', async () => {
    const organization = await createOrganization();
    const expiresAtMs = Date.now() + 60_000;
    const [revoked, expired] = [
      await createKey(organization),
      await createKey(organization, { expiresAtMs }),
    ];
    for (const key of [revoked, expired]) expect((await dialAmqp(organization, key)).status).toBe(101);
    await changeRegistry(organization, revokeKey(revoked.id));
    await expectError(await dialAmqp(organization, revoked), 401, 'UNAUTHORIZED');
    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(expiresAtMs);
    await expectError(await dialAmqp(organization, expired), 401, 'UNAUTHORIZED');
  });

  it('is not what a request without an upgrade gets, good as its proof may be (rule 1)', async () => {
    const organization = await createOrganization();
    const key = await createKey(organization);
    const authorization = basic(organization.slug, key.key);
    const request = dialRequest({ path: '/link/amqp', authorization });
    request.headers.delete('upgrade');
    await expectError(await settle(request), 404, 'NOT_FOUND');
    expect(await dialRows(organization.id)).toEqual([]);
  });
});
