/** The conditions for a valid device message, the values read from it, and readings out of order. */
import { connectDevice, telemetryMessage } from '#workerd/links.ts';
import { type LinkedScene, setScene } from '#workerd/scene.ts';
import { MINUTE, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  commandsOf,
  droppedOf,
  nthCommand,
  publish,
  publishAll,
  rawTelemetry,
  sendStatus,
  sendTelemetry,
} from '#workerd/site-devices.ts';
import { gridPowerKw } from '#workerd/site-reads.ts';
import { evictSite, numberOf, untilRegistered } from '#workerd/site-rows.ts';
import { submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { NO_TELEMETRY } from '#workerd/site-view.ts';
import { createOrganization, createPlant, siteOf } from '#workerd/world.ts';
import { hexBytes, hmacHex } from '../../../../durable-objects/secrets/hmac.ts';
import { commandSigningString } from '../../../../protocol/signing.ts';

describe('the signature of a device message', () => {
  it('a signature whose HMAC key is the hex text of the secret is valid [C-3.7]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    expect(await publish(link, rawTelemetry(gateway, { data: '{"gridPowerKw":7}' }))).toBe(true);
    expect(await gridPowerKw(plant)).toBe(7);
  });

  it('a signature whose HMAC key is the bytes of the secret is valid, and later commands are signed in that form [C-3.7]', async () => {
    const { plant, gateway, link, partner } = await setScene({ gateway: 'listening' });
    const bytes = hexBytes(gateway.hmacSecret);
    const forms: [string, string | Uint8Array][] = [
      ['{"gridPowerKw":1}', bytes],
      ['{"gridPowerKw":2}', gateway.hmacSecret],
    ];
    for (const [index, [data, key]] of forms.entries()) {
      await publish(link, rawTelemetry(gateway, { data }, key));
      await partner.submit(submission('mode', { mode: 'STANDARD' }));
      const { cmdId, ts, action, payload, sig } = await nthCommand(link, index + 1);
      const signed = commandSigningString(gateway.id, cmdId, ts, action, JSON.stringify(payload));
      expect(sig).toBe(hmacHex(key, signed));
    }
    expect(commandsOf(link)).toHaveLength(2);
    expect(await droppedOf(plant.id, gateway.id)).toEqual({});
    expect(await gridPowerKw(plant)).toBe(2);
  });

  it.each([
    ['5.0', '{"gridPowerKw":5.0}', 5],
    ['1e-05', '{"gridPowerKw":1e-05}', 0.00001],
    ['1.0E+2', '{"gridPowerKw":1.0E+2}', 100],
    ['an escaped č', '{"\\u010d":1.50,"gridPowerKw":6}', 6],
    ['a raw č', '{"č":1.50,"gridPowerKw":6}', 6],
    ['integer-like keys', '{"b":1,"10":2,"9":3,"gridPowerKw":4}', 4],
    ['more digits than a number holds', '{"gridPowerKw":123456789012.12345678}', 123456789012.12346],
    ['-0', '{"gridPowerKw":-0}', 0],
    ['__proto__ and constructor as names', '{"__proto__":1,"constructor":2,"gridPowerKw":3}', 3],
  ])('the signature covers the text as it was sent: %s [C-3.7]', async (_what, data, expected) => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    await publish(link, rawTelemetry(gateway, { data }));
    expect(await droppedOf(plant.id, gateway.id)).toEqual({});
    expect(await gridPowerKw(plant)).toBeCloseTo(expected, 9);
  });

  it('the signature is checked without the whitespace outside strings [C-3.7]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    const signedData = '{"a b":1.0,"gridPowerKw":8}';
    const data = '{ "a b" : 1.0,\n\t"gridPowerKw" :\r8 }';
    await publish(link, rawTelemetry(gateway, { signedData, data }));
    expect(await gridPowerKw(plant)).toBe(8);
    await publish(link, rawTelemetry(gateway, { signedData: data, data }));
    expect(await droppedOf(plant.id, gateway.id)).toEqual({});
    await publish(link, rawTelemetry(gateway, { signedData, data: '{"ab":1.0,"gridPowerKw":9}' }));
    expect(await droppedOf(plant.id, gateway.id)).toEqual({ SIGNATURE: 1 });
  });

  it('a missing, malformed or wrong signature drops the message, which is still answered as stored [C-3.8]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    const good = '0'.repeat(64);
    const data = '{"gridPowerKw":1,"b":2}';
    const answers = await publishAll(link, [
      rawTelemetry(gateway, { data }).replace(/,"sig":"[^"]*"/, ''),
      rawTelemetry(gateway, { data }).replace(/"sig":"[^"]*"/, (sig) => sig.toUpperCase()),
      rawTelemetry(gateway, { data, sig: good.slice(1) }),
      rawTelemetry(gateway, { data, sig: `${good}0` }),
      rawTelemetry(gateway, { data, sig: good }),
      rawTelemetry(gateway, { data, signedData: '{"b":2,"gridPowerKw":1}' }),
      rawTelemetry(gateway, { data, signedData: '{"gridPowerKw":1.0,"b":2}' }),
    ]);
    expect(answers).toEqual(Array(7).fill(true));
    expect(await droppedOf(plant.id, gateway.id)).toEqual({ MALFORMED: 4, SIGNATURE: 3 });
    expect(await gridPowerKw(plant)).toBeNull();
  });

  it('a signature of one device is not valid for another [spec: Device MQTT]', async () => {
    const { plant, link } = await setScene({ gateway: 'connected' });
    const other = await createPlant(await createOrganization());
    await publish(link, rawTelemetry(other.gateway, { data: '{"gridPowerKw":1}' }));
    expect(await droppedOf(plant.id, plant.gateway.id)).toEqual({ SIGNATURE: 1 });
  });
});

describe('the time and shape of a device message', () => {
  it.for<[number, boolean]>([
    [-300_000, true],
    [300_000, true],
    [-300_001, false],
    [300_001, false],
  ])(
    'whether a message with a ts %i ms off the clock is stored: %s [spec: Limits]',
    async ([offsetMs, isStored], { connectedSite: { plant, link, gateway } }) => {
      const payload = rawTelemetry(gateway, { ts: Date.now() + offsetMs, data: '{"gridPowerKw":1}' });
      expect(await publish(link, payload)).toBe(true);
      expect(await gridPowerKw(plant)).toBe(isStored ? 1 : null);
      expect(await droppedOf(plant.id, gateway.id)).toEqual(isStored ? {} : { TIMESTAMP: 1 });
    },
  );

  it('malformed messages are dropped, counted by reason and answered as stored [C-3.8]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    const data = '{"gridPowerKw":1}';
    const now = Date.now();
    const answers = await publishAll(link, [
      rawTelemetry(gateway, { data, tsText: `"${now}"` }),
      rawTelemetry(gateway, { data, tsText: `${now}.0` }),
      rawTelemetry(gateway, { data: '{"gridPowerKw":"1"}' }),
      rawTelemetry(gateway, { data: '{"gridPowerKw":1e400}' }),
      rawTelemetry(gateway, { data: '[1]' }),
      rawTelemetry(gateway, { data, nonce: '' }),
      rawTelemetry(gateway, { data, nonce: 'č'.repeat(65) }),
      rawTelemetry(gateway, { data }).replace('{"ts"', '{"ts":1,"ts"'),
      rawTelemetry(gateway, { data }).replace('"data"', '"d\\u0061ta"'),
      '[]',
      'not json',
      '',
      `${'['.repeat(10_000)}${']'.repeat(10_000)}`,
    ]);
    expect(answers).toEqual(Array(13).fill(true));
    expect(await droppedOf(plant.id, gateway.id)).toEqual({ MALFORMED: 13 });
    expect(await publish(link, rawTelemetry(gateway, { data, nonce: 'č'.repeat(64) }))).toBe(true);
    expect(await droppedOf(plant.id, gateway.id)).toEqual({ MALFORMED: 13 });
    expect(await gridPowerKw(plant)).toBe(1);
  });

  it.each([
    ['not an array', '{"kind":"publish"}'],
    [
      'a list of more than 256 frames',
      JSON.stringify(Array(257).fill({ kind: 'subscribed', commands: true })),
    ],
    ['a frame of an unknown kind', '[{"kind":"revoke","seq":1}]'],
    ['bytes', new TextEncoder().encode('[]')],
  ])('a link message that is %s closes the link [rule 1]', async (_what, message) => {
    const { link } = await setScene({ gateway: 'connected' });
    link.socket.send(message);
    expect(await link.untilClosed()).toMatchObject({ code: 4400 });
  });
});

describe('the stored data of a device message', () => {
  it('identical messages are stored once, in one batch, in two, and over another link [C-3.8]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    const payload = telemetryMessage(gateway, '{"gridPowerKw":3}');
    expect(await publishAll(link, [payload, payload])).toEqual([true, true]);
    expect(await publish(link, payload)).toBe(true);
    const second = await connectDevice(plant, { bridge: 'bridge-2' });
    expect(await publish(second, payload)).toBe(true);
    const nonce = JSON.parse(payload).nonce as string;
    const copies = `SELECT sum((length(data) - length(replace(data, '${nonce}', ''))) / ${nonce.length}) FROM journal_block`;
    expect(await numberOf(plant.id, copies)).toBe(1);
    expect(await droppedOf(plant.id, gateway.id)).toEqual({});
  });

  it('the latest values without data are null and MISSING, with the time of the read [C-4.1]', async () => {
    const { plant, site } = await setScene({ gateway: 'connected' });
    const { timestamp, payload } = await site.readLatestTelemetry(plant.id);
    expect(timestamp).toBe(new Date().toISOString());
    expect(payload).toEqual(NO_TELEMETRY);
  });

  it('the latest values are site values if they exist, and otherwise sums by asset type [C-3.13]', async () => {
    const { plant, link, site, gateway } = await setScene({ gateway: 'connected' });
    await sendTelemetry(link, gateway, { 'BESS-1/powerKw': -5, 'FVE-1/powerKw': 20, 'METER-1/powerKw': -12 });
    setClock(Date.now() + 1_000);
    await sendTelemetry(link, gateway, { fvePowerKw: 21, 'BESS-1/socPercent': 55 });
    const { timestamp, payload } = await site.readLatestTelemetry(plant.id);
    expect(timestamp).toBe(new Date().toISOString());
    expect(payload).toMatchObject({
      gridPowerKw: -12,
      fvePowerKw: 21,
      batteryPowerKw: -5,
      consumptionPowerKw: 14,
      socPercent: 55,
      dataQuality: 'INTERPOLATED',
    });
    expect(payload.devices).toContainEqual({
      deviceId: 'BESS-1',
      assetType: 'BESS',
      powerKw: -5,
      socPercent: 55,
    });
    setClock(Date.now() + 5 * MINUTE);
    expect((await site.readLatestTelemetry(plant.id)).payload.dataQuality).toBe('STALE');
  });

  it('the registry receives the status that a device reports [C-3.1]', async () => {
    const { link, gateway } = await setScene({ gateway: 'connected' });
    expect(await sendStatus(link, gateway, 'MAINTENANCE')).toBe(true);
    const device = { connection_status: 'MAINTENANCE', last_seen_at_ms: Date.now() };
    await untilRegistered('devices', gateway.id, device);
  });
});

const reading = ({ gateway }: LinkedScene, ts: number, kw: number) =>
  rawTelemetry(gateway, { ts, data: `{"gridPowerKw":${kw}}` });

/** The grid power before and after a wake. */
async function awakeAndWoken({ plant }: LinkedScene): Promise<unknown[]> {
  const awake = await gridPowerKw(plant);
  await evictSite(plant.id);
  return [awake, await gridPowerKw(plant)];
}

describe('a reading', () => {
  it('an older reading that arrives later does not replace the current one [C-3.13]', async () => {
    const scene = await setScene({ gateway: 'connected' });
    await publish(scene.link, reading(scene, START_MS, 1));
    setClock(START_MS + 10 * SECOND);
    await publish(scene.link, reading(scene, START_MS - MINUTE, 2));
    expect(await awakeAndWoken(scene)).toEqual([1, 1]);
  });

  it('a later reading of the same moment replaces the current one [C-4.5]', async () => {
    const scene = await setScene({ gateway: 'connected' });
    await publishAll(scene.link, [reading(scene, START_MS, 1), reading(scene, START_MS, 2)]);
    setClock(START_MS + 10 * SECOND);
    await publish(scene.link, reading(scene, START_MS, 3));
    expect(await awakeAndWoken(scene)).toEqual([3, 3]);
  });

  it('a backlog sent newest first leaves the newest value of each signal [C-3.13]', async () => {
    const scene = await setScene({ gateway: 'connected' });
    const ages = [0, 1, 2, 3, 4];
    const backlog = ages.map((age) => reading(scene, START_MS - age * MINUTE, age));
    backlog.push(
      rawTelemetry(scene.gateway, { ts: START_MS - 4 * MINUTE, data: '{"fvePowerKw":8,"gridPowerKw":99}' }),
    );
    await publishAll(scene.link, backlog);
    expect(await awakeAndWoken(scene)).toEqual([0, 0]);
    expect((await siteOf(scene.plant.id).readLatestTelemetry(scene.plant.id)).payload.fvePowerKw).toBe(8);
  });

  it('an older reading does not replace a newer one from the stored latest values after a wake [C-3.13]', async () => {
    const scene = await setScene({ gateway: 'connected' });
    for (const minute of [0, 6, 12]) {
      setClock(START_MS + minute * MINUTE);
      await publish(scene.link, reading(scene, START_MS + minute * MINUTE, minute));
    }
    await evictSite(scene.plant.id);
    await publish(scene.link, reading(scene, START_MS + 8 * MINUTE, 99));
    expect(await awakeAndWoken(scene)).toEqual([12, 12]);
  });

  it('dated ahead stays the latest only until one with a later ts arrives [C-3.13]', async () => {
    const scene = await setScene({ gateway: 'connected' });
    await publish(scene.link, reading(scene, START_MS + 5 * MINUTE, 1));
    setClock(START_MS + MINUTE);
    await publish(scene.link, reading(scene, START_MS + MINUTE, 2));
    expect(await awakeAndWoken(scene)).toEqual([1, 1]);
    setClock(START_MS + 6 * MINUTE);
    await publish(scene.link, reading(scene, START_MS + 6 * MINUTE, 3));
    expect(await awakeAndWoken(scene)).toEqual([3, 3]);
  });

  it('the timestamp of the latest values is the newest ts of a reading [C-4.1]', async () => {
    const scene = await setScene({ gateway: 'connected' });
    await publish(scene.link, reading(scene, START_MS - 30 * SECOND, 1));
    const { timestamp } = await siteOf(scene.plant.id).readLatestTelemetry(scene.plant.id);
    expect(timestamp).toBe(new Date(START_MS - 30 * SECOND).toISOString());
  });
});
