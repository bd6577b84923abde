/** A secret of a device that leaked ends at once: `rotate-secret {endOthers: true}` [C-20.1]. */
import { fingerprintOf } from '#workerd/certificates.ts';
import { deviceToken, renew, renewal } from '#workerd/device-tokens.ts';
import { connect } from '#workerd/devices.ts';
import { dialMqtt } from '#workerd/door.ts';
import type { DeviceTestLink } from '#workerd/links.ts';
import { HOUR, holdClock, MINUTE, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { droppedOf, nthCommand, sendTelemetry, subscribe } from '#workerd/site-devices.ts';
import { gridPowerKw } from '#workerd/site-reads.ts';
import { evictSite, numberOf } from '#workerd/site-rows.ts';
import { isSignedWith } from '#workerd/site-secrets.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, expectError, expectInvalid, it } from '#workerd/worker-test.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';

holdClock();

/** As a client sees it: `graceUntil` is null where no older secret is valid any more. */
interface EndedRotation {
  deviceId: string;
  hmacSecret: string;
  graceUntil: string | null;
  rotatedAt: string;
}

let lastKw = 0;

/** Whether the Site accepts a message that is signed with this secret. */
async function counts(
  link: DeviceTestLink,
  { id, siteId }: { id: string; siteId: string },
  hmacSecret: string,
): Promise<boolean> {
  lastKw += 1;
  setClock(Date.now() + 1);
  const gateway = { id, hmacSecret };
  await sendTelemetry(link, gateway, { gridPowerKw: lastKw });
  return (await gridPowerKw({ id: siteId, gateway })) === lastKw;
}

async function endOthers(team: Team, id: string): Promise<EndedRotation> {
  const path = `/devices/${id}/rotate-secret`;
  return await team.admin.read(path, { method: 'POST', body: { endOthers: true } });
}

describe('rotate-secret with endOthers', () => {
  it('ends the previous secret at once, answers without a grace period, and says so in the record [C-20.1]', async ({
    team,
    device,
    link,
  }) => {
    expect(await counts(link, device, device.hmacSecret)).toBe(true);
    setClock(START_MS + SECOND);
    const rotation = await endOthers(team, device.id);
    expect(rotation).toEqual({
      deviceId: device.id,
      hmacSecret: expect.stringMatching(/^[0-9a-f]{64}$/),
      graceUntil: null,
      rotatedAt: new Date(START_MS + SECOND).toISOString(),
    });
    expect((await team.readDevice(device.id)).hmacRotation).toBeNull();
    expect(await numberOf(device.siteId, 'SELECT count(*) FROM device_secret')).toBe(1);
    const again = await connect({ id: device.id, token: await team.newToken(device.id) });
    expect(await counts(again, device, device.hmacSecret)).toBe(false);
    expect(await droppedOf(device.siteId, device.id)).toEqual({ SIGNATURE: 1 });
    expect(await counts(again, device, rotation.hmacSecret)).toBe(true);
  });

  it('ends the secret that the device used last, which a plain rotation keeps for its hour [C-20.1]', async ({
    team,
    device,
    link,
  }) => {
    expect(await counts(link, device, device.hmacSecret)).toBe(true);
    await team.rotateSecret(device.id);
    setClock(START_MS + MINUTE);
    const { hmacSecret: between } = await team.rotateSecret(device.id);
    expect(await numberOf(device.siteId, 'SELECT count(*) FROM device_secret')).toBe(3);
    setClock(START_MS + 2 * MINUTE);
    const { hmacSecret: newest } = await endOthers(team, device.id);
    expect(await numberOf(device.siteId, 'SELECT count(*) FROM device_secret')).toBe(1);
    await evictSite(device.siteId);
    const again = await connect({ id: device.id, token: await team.newToken(device.id) });
    const good: boolean[] = [];
    for (const secret of [device.hmacSecret, between, newest]) good.push(await counts(again, device, secret));
    expect(good).toEqual([false, false, true]);
  });

  it('cuts the session, ends every older token, and renews none with the old secret [C-20.1]', async ({
    team,
    device,
    link,
  }) => {
    expect(await counts(link, device, device.hmacSecret)).toBe(true);
    setClock(START_MS + SECOND);
    const { hmacSecret } = await endOthers(team, device.id);
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.revoked });
    await expectError(await dialMqtt(device.id, device.token), 401, 'UNAUTHORIZED');
    await expectError(await renew(device.id, renewal(device)), 401, 'UNAUTHORIZED');
    setClock(START_MS + 2 * SECOND);
    expect((await renew(device.id, renewal({ ...device, hmacSecret }))).status).toBe(200);
    expect((await dialMqtt(device.id, await deviceToken(device.id))).status).toBe(101);
  });

  it('cuts the session of a certificate, too, and leaves the certificate valid [C-20.1]', async ({
    team,
  }) => {
    const { id: siteId } = await team.newPlant();
    const { id, security } = await team.newMtlsDevice({ plantId: siteId, type: 'GATEWAY' });
    const proof = { fingerprint: await fingerprintOf(security.certificate) };
    const dial = () => connect({ id, token: '' }, { proof });
    const link = await dial();
    expect(await counts(link, { id, siteId }, security.hmacSecret)).toBe(true);
    setClock(Date.now() + SECOND);
    const { hmacSecret } = await endOthers(team, id);
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.revoked });
    const again = await dial();
    expect(await counts(again, { id, siteId }, security.hmacSecret)).toBe(false);
    expect(await counts(again, { id, siteId }, hmacSecret)).toBe(true);
  });

  it('signs the next command with the new secret, although the device has proved only the old one [C-3.7]', async ({
    team,
    device,
    link,
  }) => {
    expect(await counts(link, device, device.hmacSecret)).toBe(true);
    setClock(START_MS + SECOND);
    const { hmacSecret } = await endOthers(team, device.id);
    const again = await connect({ id: device.id, token: await team.newToken(device.id) });
    await subscribe(again, { ...device, hmacSecret });
    await team.operator.operate(device.id, 'commands', { action: 'REBOOT' });
    expect(isSignedWith(device.id, await nthCommand(again, 1), hmacSecret)).toBe(true);
  });

  it('leaves one secret after three of them at once, and it is one that was answered [C-20.1]', async ({
    team,
    device,
  }) => {
    setClock(START_MS + SECOND);
    const all = await Promise.all([1, 2, 3].map(() => endOthers(team, device.id)));
    const again = await connect({ id: device.id, token: await team.newToken(device.id) });
    const good: boolean[] = [];
    for (const { hmacSecret } of all) good.push(await counts(again, device, hmacSecret));
    expect(good.filter(Boolean)).toHaveLength(1);
    expect(await counts(again, device, device.hmacSecret)).toBe(false);
  });

  it('audits which kind of rotation it was, without a secret [C-20.1]', async ({ team, device }) => {
    await team.rotateSecret(device.id);
    setClock(START_MS + SECOND);
    const { hmacSecret } = await endOthers(team, device.id);
    const rows = (await team.auditRowsOf(device.id)).filter(({ event }) => event === 'device.secret_rotated');
    expect(rows.map(({ details }) => JSON.parse(details ?? '{}').endOthers ?? false)).toEqual([false, true]);
    expect(JSON.stringify(rows)).not.toContain(hmacSecret);
  });

  it('gives the next plain rotation its hour again [C-3.3]', async ({ team, device }) => {
    setClock(START_MS + SECOND);
    await endOthers(team, device.id);
    const graceUntil = new Date(START_MS + SECOND + HOUR).toISOString();
    expect(await team.rotateSecret(device.id)).toMatchObject({ graceUntil });
  });

  it.for([
    { endOthers: 'yes' },
    { endOthers: null },
    { endOthers: 1 },
    { endothers: true },
    { endOthers: true, hmacSecret: '0'.repeat(64) },
  ])('refuses the body %j and changes nothing (bad input: REST)', async (body, { team, device, link }) => {
    const answer = await team.admin.post(`/devices/${device.id}/rotate-secret`, body);
    await expectError(answer, 400, 'VALIDATION_ERROR');
    expect(await numberOf(device.siteId, 'SELECT count(*) FROM device_secret')).toBe(1);
    expect(await counts(link, device, device.hmacSecret)).toBe(true);
    expect(link.closed).toBeUndefined();
  });

  it('names the wrong field', async ({ team, device }) => {
    const answer = await team.admin.post(`/devices/${device.id}/rotate-secret`, { endOthers: 'yes' });
    await expectInvalid(answer, 'endOthers');
  });

  it('is refused in every status but ACTIVE, and to an OPERATOR', async ({ team, device }) => {
    const path = `/devices/${device.id}/rotate-secret`;
    const body = { endOthers: true };
    await expectError(await team.operator.post(path, body), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    await team.admin.operate(device.id, 'suspend');
    await expectError(await team.admin.post(path, body), 409, 'CONFLICT');
    expect(await numberOf(device.siteId, 'SELECT count(*) FROM device_secret')).toBe(1);
  });
});
