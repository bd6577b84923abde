/** Why messages of a device were dropped, for whoever makes it, and never for the device [C-3.8]. */
import { beforeAll, describe, expect, it } from 'vitest';
import { hmacHex } from '../../../durable-objects/secrets/hmac.ts';
import type { DeviceDiagnostics } from '../../../protocol/device-record.ts';
import { LINK_PATHS } from '../../../protocol/link/proof.ts';
import { telemetrySigningString } from '../../../protocol/signing.ts';
import {
  connect,
  diagnosticsOf,
  newDeviceIn,
  newTokenDevice,
  type TokenDevice,
} from '../../support/workerd/devices.ts';
import { dialMqtt } from '../../support/workerd/door.ts';
import { postPlant } from '../../support/workerd/fleet.ts';
import type { DeviceTestLink } from '../../support/workerd/links.ts';
import { createTeam, type Team } from '../../support/workerd/people.ts';
import { publish, publishAll, rawTelemetry, sendTelemetry } from '../../support/workerd/site-devices.ts';
import { gridPowerKw } from '../../support/workerd/site-reads.ts';
import { evictSite } from '../../support/workerd/site-rows.ts';

const DATA = '{"gridPowerKw": 1, "socPercent": 50}';
const COMPACT = '{"gridPowerKw":1,"socPercent":50}';
const FORGED = '0'.repeat(64);

let team: Team;

beforeAll(async () => {
  team = await createTeam();
});

async function newConnected(): Promise<{ device: TokenDevice; link: DeviceTestLink }> {
  const { id: plantId } = await postPlant(team.operator);
  const device = await newTokenDevice(team, { plantId });
  return { device, link: await connect(device) };
}

/** A message whose sender signed what it should not have. */
function signedAs(
  device: TokenDevice,
  data: string,
  textOf: (message: { ts: number; nonce: string }) => string,
): string {
  const [ts, nonce] = [Date.now(), crypto.randomUUID()];
  const sig = hmacHex(device.hmacSecret, textOf({ ts, nonce }));
  return rawTelemetry(device, { ts, nonce, data, sig });
}

/** What each wrong message is told about: its reason, and a word of its detail. */
const MISTAKES: Record<string, (device: TokenDevice) => [payload: string, reason: string, detail: RegExp]> = {
  'ts in seconds': (device) => [
    rawTelemetry(device, { ts: Math.floor(Date.now() / 1_000), data: COMPACT }),
    'TIMESTAMP',
    /in seconds; it must be in milliseconds/,
  ],
  'ts too old': (device) => [
    rawTelemetry(device, { ts: Date.now() - 360_000, data: COMPACT }),
    'TIMESTAMP',
    / 360(\.\d+)? s behind .* 300 s are allowed/,
  ],
  'ts too far ahead': (device) => [
    rawTelemetry(device, { ts: Date.now() + 400_000, data: COMPACT }),
    'TIMESTAMP',
    / (399\.\d+|400) s ahead of/,
  ],
  'ts as text': (device) => [
    rawTelemetry(device, { tsText: `"${Date.now()}"`, data: COMPACT }),
    'MALFORMED',
    /^ts: text/,
  ],
  'upper-case hex': (device) => [
    rawTelemetry(device, { data: COMPACT, sig: 'AB'.repeat(32) }),
    'MALFORMED',
    /^sig: upper-case hex/,
  ],
  'JSON signed with its spaces': (device) => [
    signedAs(device, DATA, ({ ts, nonce }) => `${device.id}|${ts}|${nonce}|${DATA}`),
    'SIGNATURE',
    /signed with its whitespace/,
  ],
  'keys sorted before they were signed': (device) => [
    signedAs(device, '{"b":1,"a":2}', ({ ts, nonce }) => `${device.id}|${ts}|${nonce}|{"a":2,"b":1}`),
    'SIGNATURE',
    /keys sorted/,
  ],
  'numbers printed anew before they were signed': (device) => [
    signedAs(device, '{"a":5.0}', ({ ts, nonce }) => `${device.id}|${ts}|${nonce}|{"a":5}`),
    'SIGNATURE',
    /other text than was sent/,
  ],
  'no device id in what was signed': (device) => [
    signedAs(device, COMPACT, ({ ts, nonce }) => `${ts}|${nonce}|${COMPACT}`),
    'SIGNATURE',
    /device id is missing/,
  ],
  'a device id in upper case': (device) => [
    signedAs(device, COMPACT, ({ ts, nonce }) => `${device.id.toUpperCase()}|${ts}|${nonce}|${COMPACT}`),
    'SIGNATURE',
    /upper case/,
  ],
  'the whole message signed': (device) => {
    const bare = `{"ts":${Date.now()},"nonce":"${crypto.randomUUID()}","data":${COMPACT}`;
    const payload = `${bare},"sig":"${hmacHex(device.hmacSecret, `${bare}}`)}"}`;
    return [payload, 'SIGNATURE', /the whole message was signed/];
  },
  'another secret': (device) => [
    rawTelemetry(device, { data: COMPACT }, FORGED),
    'SIGNATURE',
    /by no secret of this device/,
  ],
  'no JSON': () => ['x', 'MALFORMED', /\S/],
  'data that is no object': (device) => [rawTelemetry(device, { data: '[1]' }), 'MALFORMED', /\S/],
};

describe('GET /devices/{id}/diagnostics', () => {
  it.each(Object.entries(MISTAKES))('tells of %s, and the device nothing [C-3.8]', async (_name, mistake) => {
    const { device, link } = await newConnected();
    const [payload, reason, detail] = mistake(device);
    expect(await publish(link, payload)).toBe(true);
    const { drops, recent } = await diagnosticsOf(team, device.id);
    expect(drops).toEqual({ [reason]: 1 });
    expect(recent).toEqual([expect.objectContaining({ reason, detail: expect.stringMatching(detail) })]);
    expect(recent[0]?.topic).toMatch(/telemetry$/);
    expect(link.received.map(({ kind }) => kind)).toEqual(['stored']);
    expect(await gridPowerKw({ id: device.siteId, gateway: device })).toBeNull();
  });

  it('tells of a nonce that came before with another message, and of no re-send [C-3.8]', async () => {
    const { device, link } = await newConnected();
    const first = rawTelemetry(device, { nonce: 'n-1', data: '{"gridPowerKw":1}' });
    await publishAll(link, [first, first]);
    expect((await diagnosticsOf(team, device.id)).drops).toEqual({});
    await publish(link, rawTelemetry(device, { nonce: 'n-1', data: '{"gridPowerKw":2}' }));
    const { drops, recent } = await diagnosticsOf(team, device.id);
    expect(drops).toEqual({ NONCE: 1 });
    expect(recent[0]?.detail).toContain('"n-1"');
    expect(await gridPowerKw({ id: device.siteId, gateway: device })).toBe(1);
  });

  it('tells of a topic that is not the device’s own [C-3.8]', async () => {
    const { device, link } = await newConnected();
    const topic = `cpi/${crypto.randomUUID()}/telemetry`;
    link.send({ kind: 'strayed', topic, act: 'publish' });
    await sendTelemetry(link, device, { gridPowerKw: 1 });
    const { drops, recent } = await diagnosticsOf(team, device.id);
    expect(drops).toEqual({ TOPIC: 1 });
    expect(recent).toMatchObject([{ topic, reason: 'TOPIC' }]);
  });

  it('shows to ADMIN and above what should have been signed, to an OPERATOR not, and a key to nobody [C-3.8]', async () => {
    const { device, link } = await newConnected();
    const [ts, nonce] = [Date.now(), crypto.randomUUID()];
    await publish(link, rawTelemetry(device, { ts, nonce, data: DATA, sig: FORGED }));
    const expected = telemetrySigningString(device.id, ts, nonce, COMPACT);
    const path = `/devices/${device.id}/diagnostics`;
    for (const person of [team.admin, team.orgAdmin]) {
      expect((await person.read<DeviceDiagnostics>(path)).recent).toMatchObject([{ expected }]);
    }
    const { recent, ...rest } = await team.operator.read<DeviceDiagnostics>(path);
    expect(recent).toHaveLength(1);
    expect(recent[0]).not.toHaveProperty('expected');
    const { recent: all, ...same } = await diagnosticsOf(team, device.id);
    expect(rest).toEqual(same);
    for (const told of [recent, rest, all]) {
      const text = JSON.stringify(told);
      for (const secret of [device.hmacSecret, device.token, FORGED]) expect(text).not.toContain(secret);
    }
  });

  it('counts all drops, and shows the last hundred, newest first [C-3.8]', async () => {
    const { device, link } = await newConnected();
    const bad = (count: number, data: string) =>
      Array.from({ length: count }, () => rawTelemetry(device, { data, sig: FORGED }));
    await publishAll(link, bad(60, '{"old":1}'));
    await publishAll(link, bad(60, '{"new":1}'));
    const { drops, recent } = await diagnosticsOf(team, device.id);
    expect([drops, recent.length]).toEqual([{ SIGNATURE: 120 }, 100]);
    const isNew = recent.map(({ expected = '' }) => expected.endsWith('{"new":1}'));
    expect(isNew).toEqual([...Array(60).fill(true), ...Array(40).fill(false)]);
  });

  it('shows the last hundred logins, newest first [C-3.8]', async () => {
    const { device } = await newConnected();
    const addressOf = (index: number) => `198.51.100.${index}`;
    for (let index = 1; index <= 105; index++) {
      const options = { path: LINK_PATHS.mqttUncounted, proof: { address: addressOf(index) } };
      expect((await dialMqtt(device.id, 'x', options)).status).toBe(401);
    }
    const { connects } = await diagnosticsOf(team, device.id);
    expect(connects.map(({ address }) => address)).toEqual(
      Array.from({ length: 100 }, (_none, index) => addressOf(105 - index)),
    );
  });

  it('has all of it after an eviction, and of one device alone [C-3.8]', async () => {
    const { device, link } = await newConnected();
    const sibling = await newTokenDevice(team, { plantId: device.siteId });
    await publish(link, rawTelemetry(device, { data: DATA, sig: FORGED }));
    const before = await diagnosticsOf(team, device.id);
    await evictSite(device.siteId);
    expect(await diagnosticsOf(team, device.id)).toEqual(before);
    expect(await diagnosticsOf(team, sibling.id)).toEqual({ drops: {}, recent: [], connects: [] });
  });

  it('cuts what is long: no message fills it [C-3.8]', async () => {
    const { device, link } = await newConnected();
    const data = `{"${'x'.repeat(120)}":1,${Array.from({ length: 900 }, (_none, index) => `"${index}_${'y'.repeat(60)}":1`)}}`;
    await publish(link, rawTelemetry(device, { data, sig: FORGED }));
    await publish(link, `{"ts":${'1'.repeat(50_000)}}`);
    const { recent } = await diagnosticsOf(team, device.id);
    expect(recent).toHaveLength(2);
    for (const drop of recent) expect(JSON.stringify(drop).length).toBeLessThan(3_000);
  });

  it.each(['PENDING', 'SUSPENDED', 'DECOMMISSIONED'] as const)(
    'answers for a %s device, too [C-3.8]',
    async (status) => {
      const id = await newDeviceIn(team, status);
      expect(await diagnosticsOf(team, id)).toEqual({ drops: {}, recent: [], connects: [] });
    },
  );
});
