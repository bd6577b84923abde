/** A device whose token has expired gets a new one with its secret, without a session [C-3.12]. */
import { bodyOf } from '#workerd/client.ts';
import { valueFrom } from '#workerd/d1.ts';
import { type Renewal, renew, renewal } from '#workerd/device-tokens.ts';
import { connect } from '#workerd/devices.ts';
import { boundSite } from '#workerd/site-bounds.ts';
import { HOUR, holdClock, MINUTE, passTime, START_MS, setClock } from '#workerd/site-clock.ts';
import { publish, rawTelemetry, sendTelemetry } from '#workerd/site-devices.ts';
import { gridPowerKw } from '#workerd/site-reads.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import { hmacHex } from '../../../durable-objects/secrets/hmac.ts';
import { renewalSigningString } from '../../../protocol/signing.ts';

holdClock();

async function expectRefused(id: string, body: unknown): Promise<string> {
  const response = await renew(id, body);
  const text = await response.clone().text();
  await expectError(response, 401, 'UNAUTHORIZED');
  return text;
}

describe('POST /devices/{id}/mqtt-token/renew', () => {
  it('a renewal returns a token for 3600 s, even long after the last one [C-3.12]', async ({ device }) => {
    setClock(START_MS + 10 * 24 * HOUR);
    const answer = await bodyOf<{ token: string }>(await renew(device.id, renewal(device)), 200);
    const expiresAt = new Date(Date.now() + HOUR).toISOString();
    expect(answer).toEqual({ token: expect.any(String), expiresAt });
    const link = await connect({ id: device.id, token: answer.token });
    expect(await sendTelemetry(link, device, { gridPowerKw: 4 })).toBe(true);
    expect(await gridPowerKw({ id: device.siteId, gateway: device })).toBe(4);
    const stored = await valueFrom('SELECT token_expires_at_ms FROM devices WHERE id = ?', device.id);
    expect(stored).toBe(Date.now() + HOUR);
  });

  it('a renewal may be signed with the secret as hex or as bytes, in a grace period with either secret [C-3.7]', async ({
    team,
    device,
  }) => {
    const bytes = Uint8Array.from(device.hmacSecret.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
    const signed = renewalSigningString(device.id, Date.now(), 'as bytes');
    const asBytes = { ts: Date.now(), nonce: 'as bytes', sig: hmacHex(bytes, signed) };
    expect((await renew(device.id, asBytes)).status).toBe(200);
    const { hmacSecret } = await team.rotateSecret(device.id);
    const next = { id: device.id, hmacSecret };
    expect((await renew(device.id, renewal(device))).status).toBe(200);
    expect((await renew(device.id, renewal(next))).status).toBe(200);
    await passTime(device.siteId, HOUR);
    await expectRefused(device.id, renewal(device));
    expect((await renew(device.id, renewal(next))).status).toBe(200);
  });

  it('a renewal works once: with the same nonce again it gets 401, also after an eviction [C-3.12]', async ({
    device,
  }) => {
    const request = renewal(device);
    expect((await renew(device.id, request)).status).toBe(200);
    await expectRefused(device.id, request);
    await evictSite(device.siteId);
    await expectRefused(device.id, request);
    await expectRefused(device.id, renewal(device, { nonce: request.nonce, ts: request.ts + 1 }));
    expect((await renew(device.id, renewal(device))).status).toBe(200);
  });

  it('the nonce of a message is refused in a renewal, and vice versa [C-3.8]', async ({ device, link }) => {
    await publish(link, rawTelemetry(device, { nonce: 'telemetry first', data: '{"gridPowerKw":1}' }));
    await expectRefused(device.id, renewal(device, { nonce: 'telemetry first' }));
    expect((await renew(device.id, renewal(device, { nonce: 'renewal first' }))).status).toBe(200);
    await publish(link, rawTelemetry(device, { nonce: 'renewal first', data: '{"gridPowerKw":2}' }));
    expect(await gridPowerKw({ id: device.siteId, gateway: device })).toBe(1);
  });

  it('says while the table of nonces is full that the device has to wait, and not that its nonce was used [C-3.8]', async ({
    team,
    device,
    link,
  }) => {
    await boundSite(device.siteId, { nonces: 2 });
    const again = await connect(device);
    expect(link.closed).toBeUndefined();
    for (const kw of [1, 2]) expect(await sendTelemetry(again, device, { gridPowerKw: kw })).toBe(true);
    const request = renewal(device);
    const refused = await renew(device.id, request);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    const { message } = await expectError(refused, 503, 'SERVICE_UNAVAILABLE');
    expect(message).toMatch(/nonces/);
    const { drops, recent } = await team.diagnosticsOf(device.id);
    expect(drops).not.toHaveProperty('NONCE');
    expect(JSON.stringify(recent)).not.toContain('was used before');
    // The request was not taken, so the same one is good once there is room again.
    await passTime(device.siteId, 4 * MINUTE);
    setClock(START_MS + 5 * MINUTE + 1);
    expect((await renew(device.id, renewal(device))).status).toBe(200);
  });

  it('shows a request with a wrong signature nothing about the table of nonces (bad input: REST)', async ({
    device,
    link,
  }) => {
    await boundSite(device.siteId, { nonces: 1 });
    const again = await connect(device);
    expect(link.closed).toBeUndefined();
    expect(await sendTelemetry(again, device, { gridPowerKw: 1 })).toBe(true);
    await expectRefused(device.id, { ...renewal(device), sig: '0'.repeat(64) });
    await expectRefused(device.id, renewal(device, { ts: Date.now() - HOUR }));
  });

  it('succeeds for one of concurrent equal renewals [C-3.12]', async ({ device }) => {
    const request = renewal(device);
    const answers = await Promise.all([1, 2, 3, 4].map(() => renew(device.id, request)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 401, 401, 401]);
  });

  it('every invalid renewal gets the same 401 [C-3.12]', async ({ team, device }) => {
    const sibling = await team.newTokenDevice();
    const { id } = device;
    const good = renewal(device);
    const suspended = await team.newTokenDevice();
    await team.admin.operate(suspended.id, 'suspend');
    const revoked = await team.newTokenDevice();
    await team.admin.operate(revoked.id, 'revoke');
    const certified = await team.newMtlsDevice();
    const pending = await team.newDeviceIn('PENDING');
    const secretOf = (other: string) => ({ id: other, hmacSecret: device.hmacSecret });
    const unknown = crypto.randomUUID();
    const bare = `${id}|${good.ts}|${good.nonce}`;
    const cases: [string, string, Renewal][] = [
      ['another secret', id, renewal({ id, hmacSecret: sibling.hmacSecret })],
      ['another device', sibling.id, good],
      ['no signature', id, { ...good, sig: '' }],
      ['upper-case hex', id, { ...good, sig: good.sig.toUpperCase() }],
      ['a signature cut short', id, { ...good, sig: good.sig.slice(0, 63) }],
      ['another nonce', id, { ...good, nonce: `${good.nonce}0` }],
      ['another ts', id, { ...good, ts: good.ts + 1 }],
      ['no RENEW', id, { ...good, sig: hmacHex(device.hmacSecret, bare) }],
      ['too old', id, renewal(device, { ts: START_MS - 5 * MINUTE - 1 })],
      ['too far ahead', id, renewal(device, { ts: START_MS + 5 * MINUTE + 1 })],
      ['seconds', id, renewal(device, { ts: START_MS / 1_000 })],
      ['an unknown device', unknown, renewal(secretOf(unknown))],
      ['a SUSPENDED device', suspended.id, renewal(suspended)],
      ['a DECOMMISSIONED device', revoked.id, renewal(revoked)],
      ['a PENDING device', pending, renewal(secretOf(pending))],
      ['a device with a certificate', certified.id, renewal({ id: certified.id, ...certified.security })],
    ];
    const bodies = new Set<string>();
    for (const [, to, request] of cases) bodies.add(await expectRefused(to, request));
    expect(bodies.size).toBe(1);
    expect((await renew(id, good)).status).toBe(200);
    for (const ts of [START_MS - 5 * MINUTE, START_MS + 5 * MINUTE]) {
      expect((await renew(id, renewal(device, { ts }))).status).toBe(200);
    }
  });

  it('an unknown device and a wrong secret get equal answers and headers [C-3.12]', async ({ device }) => {
    const [known, unknown] = [device.id, crypto.randomUUID()];
    const seen: unknown[] = [];
    for (const id of [known, unknown, known, unknown]) {
      const response = await renew(id, renewal({ id, hmacSecret: '0'.repeat(64) }));
      const headers = [...response.headers].filter(([name]) => name !== 'x-request-id');
      expect(headers.map(([name]) => name).filter((name) => /ratelimit|retry/.test(name))).toEqual([]);
      seen.push({ status: response.status, text: await response.text(), headers });
    }
    expect(seen).toEqual(Array(4).fill(seen[0]));
    expect(seen[0]).toMatchObject({ status: 401 });
  });

  it('a hundred renewals with a wrong secret neither suspend the device nor block its own renewal [C-3.12]', async ({
    team,
    device,
  }) => {
    const { id } = device;
    const mallory = { id, hmacSecret: '0'.repeat(64) };
    for (let count = 0; count < 100; count++) {
      setClock(START_MS + count * 10);
      await expectRefused(id, renewal(mallory));
    }
    expect((await renew(id, renewal(device))).status).toBe(200);
    const { recent, drops } = await team.diagnosticsOf(id);
    expect([recent.map(({ reason }) => reason), drops]).toEqual([['SIGNATURE'], { SIGNATURE: 1 }]);
    expect((await team.readDevice(id)).status).toBe('ACTIVE');
  });

  it('diagnostics store at most one wrong renewal a minute [C-3.8]', async ({ team, device }) => {
    const { id } = device;
    const storedAt = async (atMs: number) => {
      setClock(START_MS + atMs);
      await expectRefused(id, renewal({ id, hmacSecret: '0'.repeat(64) }));
      return (await team.diagnosticsOf(id)).recent.length;
    };
    expect([await storedAt(0), await storedAt(0), await storedAt(MINUTE - 1)]).toEqual([1, 1, 1]);
    await evictSite(id);
    expect(await storedAt(MINUTE - 1)).toBe(1);
    expect([await storedAt(MINUTE), await storedAt(MINUTE), await storedAt(2 * MINUTE - 1)]).toEqual([
      2, 2, 2,
    ]);
    expect(await storedAt(2 * MINUTE)).toBe(3);
  });

  it('a malformed request gets 400 (bad input: REST)', async ({ device }) => {
    const good = renewal(device);
    const bad = [
      undefined,
      [],
      {},
      { ...good, ts: undefined },
      { ...good, ts: String(good.ts) },
      { ...good, ts: 1.5 },
      { ...good, nonce: '' },
      { ...good, nonce: 'x'.repeat(129) },
      { ...good, nonce: 1 },
      { ...good, sig: undefined },
      { ...good, sig: 'x'.repeat(201) },
      { ...good, deviceId: device.id },
    ];
    for (const body of bad) await expectError(await renew(device.id, body), 400, 'VALIDATION_ERROR');
    await expectError(await renew('x', good), 400, 'VALIDATION_ERROR');
    expect((await renew(device.id, good)).status).toBe(200);
  });

  it('an admin sees in the diagnostics why a renewal was refused, and no secret; the device gets no reason [C-3.8]', async ({
    team,
    device,
  }) => {
    const { id, hmacSecret } = device;
    const unknown = crypto.randomUUID();
    const wrong = renewal({ id, hmacSecret: '0'.repeat(64) });
    const answers = [
      await expectRefused(unknown, renewal({ id: unknown, hmacSecret })),
      await expectRefused(id, wrong),
      await expectRefused(id, renewal(device, { ts: START_MS / 1_000 })),
    ];
    // Word for word the answer about a device that does not exist: nothing of what the diagnostics say below.
    expect(new Set(answers).size).toBe(1);
    const { drops, recent } = await team.diagnosticsOf(id);
    expect(drops).toEqual({ SIGNATURE: 1, TIMESTAMP: 1 });
    expect(recent.map(({ reason, topic }) => [reason, topic])).toEqual([
      ['TIMESTAMP', 'mqtt-token/renew'],
      ['SIGNATURE', 'mqtt-token/renew'],
    ]);
    expect(recent[0]?.detail).toContain('in seconds');
    expect(recent[1]?.expected).toBe(renewalSigningString(id, wrong.ts, wrong.nonce));
    expect(JSON.stringify(recent)).not.toContain(hmacSecret);
    expect((await team.readDevice(id)).status).toBe('ACTIVE');
  });
});
