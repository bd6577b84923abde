/** Fresh tokens and fresh secrets for devices that are at work [C-3.3]. */
import { importJWK, jwtVerify } from 'jose';
import { beforeAll, describe, expect, it } from 'vitest';
import { hmacHex } from '../../../durable-objects/secrets/hmac.ts';
import { commandSigningString } from '../../../protocol/signing.ts';
import { deviceToken } from '../../support/workerd/device-tokens.ts';
import {
  connect,
  createTeamAtStart,
  newDeviceIn,
  newTokenDevice,
  operate,
  readDevice,
  type TokenDevice,
} from '../../support/workerd/devices.ts';
import { dialMqtt } from '../../support/workerd/door.ts';
import { postPlant } from '../../support/workerd/fleet.ts';
import type { DeviceTestLink } from '../../support/workerd/links.ts';
import { Person, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';
import { holdClock, MINUTE, passTime, START_MS, setClock } from '../../support/workerd/site-clock.ts';
import {
  commandsOf,
  droppedOf,
  type ReceivedCommand,
  sendTelemetry,
  subscribe,
} from '../../support/workerd/site-devices.ts';
import { gridPowerKw } from '../../support/workerd/site-reads.ts';
import { rowsOf } from '../../support/workerd/site-rows.ts';
import { TOKEN_PRIVATE_KEY } from '../../support/workerd/tokens.ts';

const { d: _secret, ...PUBLIC_KEY } = TOKEN_PRIVATE_KEY;

interface Token {
  token: string;
  expiresAt: string;
}

interface Rotation {
  deviceId: string;
  hmacSecret: string;
  graceUntil: string;
  rotatedAt: string;
}

let team: Team;

beforeAll(async () => {
  team = await createTeamAtStart();
});

holdClock();

async function rotate({ id }: TokenDevice, by = team.admin): Promise<Rotation> {
  return await by.read(`/devices/${id}/rotate-secret`, { method: 'POST' });
}

/** A device of a plant, and its link. */
async function newConnected(): Promise<{ device: TokenDevice; link: DeviceTestLink }> {
  const { id: plantId } = await postPlant(team.operator);
  const device = await newTokenDevice(team, { plantId });
  return { device, link: await connect(device) };
}

let lastKw = 0;

/** Whether what is signed with this secret counts. */
async function counts(
  link: DeviceTestLink,
  { id, siteId }: TokenDevice,
  hmacSecret: string,
): Promise<boolean> {
  lastKw += 1;
  setClock(Date.now() + 1);
  const gateway = { id, hmacSecret };
  await sendTelemetry(link, gateway, { gridPowerKw: lastKw });
  return (await gridPowerKw({ id: siteId, gateway })) === lastKw;
}

function isSignedWith(hmacSecret: string, deviceId: string, command: ReceivedCommand | undefined): boolean {
  const { cmdId = '', ts = 0, action = '', payload, sig } = command ?? {};
  return (
    sig === hmacHex(hmacSecret, commandSigningString(deviceId, cmdId, ts, action, JSON.stringify(payload)))
  );
}

describe('POST /devices/{id}/mqtt-token', () => {
  it.each([
    [undefined, 3_600],
    [{}, 3_600],
    [{ expiresIn: 60 }, 60],
    [{ expiresIn: 86_400 }, 86_400],
  ])('with %j issues a token of %i s that opens the door (spec: Limits)', async (body, seconds) => {
    const { id } = await newTokenDevice(team);
    const answer = (await (await operate(team.admin, id, 'mqtt-token', body)).json()) as Token;
    const expiresAt = new Date(START_MS + seconds * 1_000).toISOString();
    expect(answer).toEqual({ token: expect.any(String), expiresAt });
    const key = await importJWK(PUBLIC_KEY, 'EdDSA');
    const { payload } = await jwtVerify(answer.token, key, { audience: 'mqtt', subject: id });
    expect([payload.iat, payload.exp]).toEqual([START_MS / 1_000, START_MS / 1_000 + seconds]);
    expect(payload).toMatchObject({ subscribe: [`cpi/${id}/commands`] });
    expect((await readDevice(team, id)).tokenExpiresAt).toBe(expiresAt);
    setClock(START_MS + seconds * 1_000 - 1);
    expect((await dialMqtt(id, answer.token)).status).toBe(101);
    setClock(START_MS + seconds * 1_000);
    expect((await dialMqtt(id, answer.token)).status).toBe(401);
  });

  it('refuses a lifetime out of its bounds, and any other field: none is issued (spec: Limits)', async () => {
    const { id } = await newTokenDevice(team);
    const before = await readDevice(team, id);
    const bad = [59, 0, -60, 86_401, 60.5, '3600', null, [60], 1e9].map((expiresIn) => ({ expiresIn }));
    for (const body of [[], 'x', ...bad, { expires_in: 60 }, { expiresIn: 60, sub: id }]) {
      await expectError(await operate(team.admin, id, 'mqtt-token', body), 400, 'VALIDATION_ERROR');
    }
    expect(await readDevice(team, id)).toEqual(before);
  });

  it('on a device with a certificate is 409 [C-3.3]', async () => {
    const id = await newDeviceIn(team, 'ACTIVE', { authMethod: 'MTLS' });
    await expectError(await operate(team.admin, id, 'mqtt-token'), 409, 'CONFLICT');
    expect((await readDevice(team, id)).tokenExpiresAt).toBeNull();
  });

  it('leaves the session and the tokens of before as they are [C-3.3]', async () => {
    const { device, link } = await newConnected();
    await operate(team.admin, device.id, 'mqtt-token', { expiresIn: 60 });
    expect(await counts(link, device, device.hmacSecret)).toBe(true);
    expect((await dialMqtt(device.id, device.token)).status).toBe(101);
  });
});

describe('POST /devices/{id}/rotate-secret', () => {
  it('answers another secret, and until when the one of before is good: 60 minutes [C-3.3]', async () => {
    const device = await newTokenDevice(team);
    const rotation = await rotate(device);
    const graceUntil = new Date(START_MS + 60 * MINUTE).toISOString();
    expect(rotation).toEqual({
      deviceId: device.id,
      hmacSecret: expect.stringMatching(/^[0-9a-f]{64}$/),
      graceUntil,
      rotatedAt: new Date(START_MS).toISOString(),
    });
    expect(rotation.hmacSecret).not.toBe(device.hmacSecret);
    expect((await readDevice(team, device.id)).hmacRotation).toEqual({ graceUntil });
  });

  it('lets the device sign with either until then, and with the new one alone from then on [C-3.3]', async () => {
    const { device, link } = await newConnected();
    const { hmacSecret: next } = await rotate(device);
    expect(await counts(link, device, device.hmacSecret)).toBe(true);
    expect(await counts(link, device, next)).toBe(true);
    await passTime(device.siteId, START_MS + 60 * MINUTE - 10 - Date.now());
    const later = { ...device, token: await deviceToken(device.id) };
    const last = await connect(later);
    expect(await counts(last, device, device.hmacSecret)).toBe(true);
    await passTime(device.siteId, 10);
    expect(await counts(last, device, device.hmacSecret)).toBe(false);
    expect(await droppedOf(device.siteId, device.id)).toEqual({ SIGNATURE: 1 });
    expect(await counts(last, device, next)).toBe(true);
    expect(await rowsOf(device.siteId, 'SELECT count(*) AS count FROM device_secret')).toEqual([
      { count: 1 },
    ]);
    const admin = await Person.logIn(team.admin.email);
    expect(await admin.read(`/devices/${device.id}`)).toMatchObject({ status: 'ACTIVE', hmacRotation: null });
  });

  it('a second time ends the older grace: the first secret is worth nothing [C-3.3]', async () => {
    const { device, link } = await newConnected();
    const { hmacSecret: second } = await rotate(device);
    setClock(START_MS + MINUTE);
    const { hmacSecret: third, graceUntil } = await rotate(device);
    expect(graceUntil).toBe(new Date(START_MS + 61 * MINUTE).toISOString());
    expect((await readDevice(team, device.id)).hmacRotation).toEqual({ graceUntil });
    const secrets = [device.hmacSecret, second, third];
    expect(new Set(secrets).size).toBe(3);
    const good: boolean[] = [];
    for (const secret of secrets) good.push(await counts(link, device, secret));
    expect(good).toEqual([false, true, true]);
  });

  it('leaves commands signed with what the device last proved, until it proves the new one [C-3.7]', async () => {
    const { device, link } = await newConnected();
    await subscribe(link, device);
    await counts(link, device, device.hmacSecret);
    const { hmacSecret: next } = await rotate(device);
    const send = () => operate(team.operator, device.id, 'commands', { action: 'REBOOT', payload: { a: 1 } });
    await send();
    expect(await counts(link, device, next)).toBe(true);
    await send();
    expect(await counts(link, device, next)).toBe(true);
    const [before, after] = commandsOf(link);
    expect(isSignedWith(device.hmacSecret, device.id, before)).toBe(true);
    expect(isSignedWith(next, device.id, after)).toBe(true);
    expect(isSignedWith(device.hmacSecret, device.id, after)).toBe(false);
  });

  it('answers each of several at once with a secret of its own; two of them are good then [C-3.3]', async () => {
    const { device, link } = await newConnected();
    const rotations = await Promise.all([rotate(device), rotate(device), rotate(device)]);
    const good: boolean[] = [];
    for (const { hmacSecret } of rotations) good.push(await counts(link, device, hmacSecret));
    expect(good.filter(Boolean)).toHaveLength(2);
    expect(await counts(link, device, device.hmacSecret)).toBe(false);
  });

  it('takes no secret of anybody’s choice, and no body (bad input: REST)', async () => {
    const { device, link } = await newConnected();
    const hmacSecret = '0'.repeat(64);
    const response = await operate(team.admin, device.id, 'rotate-secret', { hmacSecret });
    if (response.ok) expect(((await response.json()) as Rotation).hmacSecret).not.toBe(hmacSecret);
    expect(await counts(link, device, hmacSecret)).toBe(false);
  });
});
