/** An accepted AMQP dial: its answer, what it writes, and when it is no longer accepted [C-5.6]. */
import { vi } from 'vitest';
import { basic, dialAmqp, dialRequest, dialRows, lastUsedAtMs } from '#workerd/door.ts';
import { openLink, openVhost } from '#workerd/links.ts';
import { changeRegistry, revokeKey } from '#workerd/registry-changes.ts';
import { sendRequest } from '#workerd/rest.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import { apiKeyPrefix } from '../../../protocol/api-key.ts';
import { VHOST_HEADER } from '../../../protocol/link/proof.ts';
import type { ApiKeyScope } from '../../../protocol/scopes.ts';

const ADDRESS = '192.0.2.7';

describe('an AMQP dial', () => {
  it('gets 101 with the vhost; further connections of the key are not audited again (spec: partner.connected)', async ({
    organization,
    key,
  }) => {
    const before = Date.now();
    for (let repeat = 0; repeat < 3; repeat++) {
      const response = await dialAmqp(organization, key, { proof: { address: ADDRESS } });
      expect([response.status, response.headers.get(VHOST_HEADER)]).toEqual([101, `partner-${key.id}`]);
      await openVhost(openLink(response), `partner-${key.id}`);
    }
    await vi.waitFor(async () => expect(await lastUsedAtMs(key.id)).toBeGreaterThanOrEqual(before));
    await vi.waitFor(async () => expect(await dialRows(organization.id)).toHaveLength(1));
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
        count: 1,
      },
    ]);
  });

  it('has one audit row for each key, also if dials are concurrent (spec: partner.connected)', async ({
    organization,
    newKey,
    key,
  }) => {
    const second = await newKey();
    const keys = [key, key, key, second];
    const responses = await Promise.all(keys.map((one) => dialAmqp(organization, one)));
    expect(responses.map((response) => response.status)).toEqual([101, 101, 101, 101]);
    const opened = responses.map((response, at) => openVhost(openLink(response), `partner-${keys[at]?.id}`));
    await Promise.all(opened);
    await vi.waitFor(async () => {
      const rows = await dialRows(organization.id);
      expect(rows.map((row) => [row.event, row.target]).sort()).toEqual(
        [key, second].map(({ id }) => ['partner.connected', id]).sort(),
      );
    });
  });

  it.for<{ scopes: ApiKeyScope[] }>([
    { scopes: ['vcp:connect'] },
    { scopes: ['trading:connect'] },
    { scopes: ['vcp:connect', 'vcp:read'] },
  ])('needs only a connect scope: $scopes (spec: Scopes)', async ({ scopes }, { organization, newKey }) => {
    expect((await dialAmqp(organization, await newKey({ scopes }))).status).toBe(101);
  });

  it('is checked against allowedIps by the address in the bridge proof, not by HTTP headers [C-4.2]', async ({
    organization,
    newKey,
  }) => {
    const guarded = await newKey({ allowedIps: ['192.0.2.0/24', '2001:db8::/32'] });
    const headers = { 'cf-connecting-ip': '203.0.113.9', 'x-forwarded-for': '203.0.113.9' };
    for (const address of ['192.0.2.7', '::ffff:192.0.2.7', '2001:db8::1']) {
      expect((await dialAmqp(organization, guarded, { proof: { address }, headers })).status).toBe(101);
    }
    const spoofed = { 'cf-connecting-ip': '192.0.2.7', 'x-forwarded-for': '192.0.2.7' };
    const outside = { proof: { address: '203.0.113.9' }, headers: spoofed };
    await expectError(await dialAmqp(organization, guarded, outside), 403, 'FORBIDDEN');
  });

  it('opens a link that carries frames to the Vhost and back', async ({ organization, key }) => {
    const link = openLink<object, { kind: string }>(await dialAmqp(organization, key));
    const queue = `vcp.${organization.slug}.event.status`;
    link.send({ kind: 'get', seq: 5, channel: 1, queue, noAck: true });
    expect(await link.next((frame) => frame.kind === 'got')).toMatchObject({ seq: 5, delivery: null });
  });

  it('gets 401 as soon as its key was revoked or has expired [C-5.6]', async ({ organization, newKey }) => {
    const expiresAtMs = Date.now() + 60_000;
    const [revoked, expired] = [await newKey(), await newKey({ expiresAtMs })];
    for (const one of [revoked, expired]) expect((await dialAmqp(organization, one)).status).toBe(101);
    await changeRegistry(organization, revokeKey(revoked.id));
    await expectError(await dialAmqp(organization, revoked), 401, 'UNAUTHORIZED');
    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(expiresAtMs);
    await expectError(await dialAmqp(organization, expired), 401, 'UNAUTHORIZED');
  });

  it('gets 404 if it is no upgrade (rule 1)', async ({ organization, key }) => {
    const authorization = basic(organization.slug, key.key);
    const request = dialRequest({ path: '/link/amqp', authorization });
    request.headers.delete('upgrade');
    await expectError(await sendRequest(request), 404, 'NOT_FOUND');
    expect(await dialRows(organization.id)).toEqual([]);
  });
});
