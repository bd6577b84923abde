/** Diagnostics say why messages of a device were dropped: to its makers, never to the device [C-3.8]. */
import type { TokenDevice } from '#workerd/devices.ts';
import { dialMqtt } from '#workerd/door.ts';
import { publish, publishAll, rawTelemetry, sendTelemetry } from '#workerd/site-devices.ts';
import { gridPowerKw } from '#workerd/site-reads.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { describe, expect, it } from '#workerd/worker-test.ts';
import { hmacHex } from '../../../durable-objects/secrets/hmac.ts';
import type { DeviceDiagnostics } from '../../../protocol/device-record.ts';
import { LINK_PATHS } from '../../../protocol/link/proof.ts';
import { telemetrySigningString } from '../../../protocol/signing.ts';

const DATA = '{"gridPowerKw": 1, "socPercent": 50}';
const COMPACT = '{"gridPowerKw":1,"socPercent":50}';
const FORGED = '0'.repeat(64);

/** A message that is signed over another text than it should be. */
function signedAs(
  device: TokenDevice,
  data: string,
  textOf: (message: { ts: number; nonce: string }) => string,
): string {
  const [ts, nonce] = [Date.now(), crypto.randomUUID()];
  const sig = hmacHex(device.hmacSecret, textOf({ ts, nonce }));
  return rawTelemetry(device, { ts, nonce, data, sig });
}

/** Each wrong message, with the reason and the detail that the diagnostics show. */
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
  'numbers reformatted before they were signed': (device) => [
    signedAs(device, '{"a":5.0}', ({ ts, nonce }) => `${device.id}|${ts}|${nonce}|{"a":5}`),
    'SIGNATURE',
    /differs from the data that was sent/,
  ],
  'no device id in the signed text': (device) => [
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
    /with any secret of this device/,
  ],
  'no JSON': () => ['x', 'MALFORMED', /\S/],
  'data that is no object': (device) => [rawTelemetry(device, { data: '[1]' }), 'MALFORMED', /\S/],
};

describe('GET /devices/{id}/diagnostics', () => {
  it.for(Object.entries(MISTAKES))(
    'a dropped message (%s) is shown with its reason; the device itself only gets "stored" [C-3.8]',
    async ([_name, mistake], { team, device, link }) => {
      const [payload, reason, detail] = mistake(device);
      expect(await publish(link, payload)).toBe(true);
      const { drops, recent } = await team.diagnosticsOf(device.id);
      expect(drops).toEqual({ [reason]: 1 });
      expect(recent).toEqual([expect.objectContaining({ reason, detail: expect.stringMatching(detail) })]);
      expect(recent[0]?.topic).toMatch(/telemetry$/);
      expect(link.received.map(({ kind }) => kind)).toEqual(['stored']);
      expect(await gridPowerKw({ id: device.siteId, gateway: device })).toBeNull();
    },
  );

  it('a message with the nonce of another message is shown, an identical repeat is not [C-3.8]', async ({
    team,
    device,
    link,
  }) => {
    const first = rawTelemetry(device, { nonce: 'n-1', data: '{"gridPowerKw":1}' });
    await publishAll(link, [first, first]);
    expect((await team.diagnosticsOf(device.id)).drops).toEqual({});
    await publish(link, rawTelemetry(device, { nonce: 'n-1', data: '{"gridPowerKw":2}' }));
    const { drops, recent } = await team.diagnosticsOf(device.id);
    expect(drops).toEqual({ NONCE: 1 });
    expect(recent[0]?.detail).toContain('"n-1"');
    expect(await gridPowerKw({ id: device.siteId, gateway: device })).toBe(1);
  });

  it('a publish to the topic of another device is shown with that topic and the reason TOPIC [C-3.8]', async ({
    team,
    device,
    link,
  }) => {
    const topic = `cpi/${crypto.randomUUID()}/telemetry`;
    link.send({ kind: 'foreign-topic', topic, act: 'publish' });
    await sendTelemetry(link, device, { gridPowerKw: 1 });
    const { drops, recent } = await team.diagnosticsOf(device.id);
    expect(drops).toEqual({ TOPIC: 1 });
    expect(recent).toMatchObject([{ topic, reason: 'TOPIC' }]);
  });

  it('an ADMIN sees which text had to be signed, an OPERATOR does not, and neither sees a secret [C-3.8]', async ({
    team,
    device,
    link,
  }) => {
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
    const { recent: all, ...same } = await team.diagnosticsOf(device.id);
    expect(rest).toEqual(same);
    for (const shown of [recent, rest, all]) {
      const text = JSON.stringify(shown);
      for (const secret of [device.hmacSecret, device.token, FORGED]) expect(text).not.toContain(secret);
    }
  });

  it('all dropped messages are counted, and the last hundred are shown [C-3.8]', async ({
    team,
    device,
    link,
  }) => {
    const bad = (count: number, data: string) =>
      Array.from({ length: count }, () => rawTelemetry(device, { data, sig: FORGED }));
    await publishAll(link, bad(60, '{"old":1}'));
    await publishAll(link, bad(60, '{"new":1}'));
    const { drops, recent } = await team.diagnosticsOf(device.id);
    expect([drops, recent.length]).toEqual([{ SIGNATURE: 120 }, 100]);
    const isNew = recent.map(({ expected = '' }) => expected.endsWith('{"new":1}'));
    expect(isNew).toEqual([...Array(60).fill(true), ...Array(40).fill(false)]);
  });

  it('the last hundred logins are shown, newest first [C-3.8]', async ({ team, device }) => {
    const addressOf = (index: number) => `198.51.100.${index}`;
    for (let index = 1; index <= 105; index++) {
      const options = { path: LINK_PATHS.mqttUncounted, proof: { address: addressOf(index) } };
      expect((await dialMqtt(device.id, 'x', options)).status).toBe(401);
    }
    const { connects } = await team.diagnosticsOf(device.id);
    expect(connects.map(({ address }) => address)).toEqual(
      Array.from({ length: 100 }, (_none, index) => addressOf(105 - index)),
    );
  });

  it('the diagnostics of each device survive an eviction [C-3.8]', async ({ team, device, link }) => {
    const sibling = await team.newTokenDevice({ plantId: device.siteId });
    await publish(link, rawTelemetry(device, { data: DATA, sig: FORGED }));
    const before = await team.diagnosticsOf(device.id);
    await evictSite(device.siteId);
    expect(await team.diagnosticsOf(device.id)).toEqual(before);
    expect(await team.diagnosticsOf(sibling.id)).toEqual({ hints: [], drops: {}, recent: [], connects: [] });
  });

  it('a dropped message with long texts is shown in less than 3 000 characters [C-3.8]', async ({
    team,
    device,
    link,
  }) => {
    const data = `{"${'x'.repeat(120)}":1,${Array.from({ length: 900 }, (_none, index) => `"${index}_${'y'.repeat(60)}":1`)}}`;
    await publish(link, rawTelemetry(device, { data, sig: FORGED }));
    await publish(link, `{"ts":${'1'.repeat(50_000)}}`);
    const { recent } = await team.diagnosticsOf(device.id);
    expect(recent).toHaveLength(2);
    for (const drop of recent) expect(JSON.stringify(drop).length).toBeLessThan(3_000);
  });

  it.for(['PENDING', 'SUSPENDED', 'DECOMMISSIONED'] as const)(
    'a %s device that never connected has empty diagnostics [C-3.8]',
    async (status, { team }) => {
      const id = await team.newDeviceIn(status);
      expect(await team.diagnosticsOf(id)).toEqual({ hints: [], drops: {}, recent: [], connects: [] });
    },
  );
});
