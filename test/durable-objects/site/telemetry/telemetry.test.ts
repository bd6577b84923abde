/** What a device's message must be to count, and what is read of it afterwards. */
import { describe, expect, it } from 'vitest';
import { connectDevice, telemetryMessage } from '#workerd/links.ts';
import { holdClock, MINUTE, setClock } from '#workerd/site-clock.ts';
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
import { numberOf, untilRegistered } from '#workerd/site-rows.ts';
import { newConnectedSite, newListeningSite } from '#workerd/site-scenes.ts';
import { submission } from '#workerd/site-submissions.ts';
import { createOrganization, createPlant } from '#workerd/world.ts';
import { hexBytes, hmacHex } from '../../../../durable-objects/secrets/hmac.ts';
import { commandSigningString } from '../../../../protocol/signing.ts';

holdClock();

describe('the signature of a device message', () => {
  it('counts with the secret as its hex text [C-3.7]', async () => {
    const { plant, link, gateway } = await newConnectedSite();
    expect(await publish(link, rawTelemetry(gateway, { data: '{"gridPowerKw":7}' }))).toBe(true);
    expect(await gridPowerKw(plant)).toBe(7);
  });

  it('counts with the bytes of the secret, and commands are signed in that form from then on [C-3.7]', async () => {
    const { plant, gateway, link, partner } = await newListeningSite();
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
  ])('covers the text as it was sent: %s [C-3.7]', async (_what, data, expected) => {
    const { plant, link, gateway } = await newConnectedSite();
    await publish(link, rawTelemetry(gateway, { data }));
    expect(await droppedOf(plant.id, gateway.id)).toEqual({});
    expect(await gridPowerKw(plant)).toBeCloseTo(expected, 9);
  });

  it('drops the whitespace outside strings before it is checked, and only there [C-3.7]', async () => {
    const { plant, link, gateway } = await newConnectedSite();
    const signedData = '{"a b":1.0,"gridPowerKw":8}';
    const data = '{ "a b" : 1.0,\n\t"gridPowerKw" :\r8 }';
    await publish(link, rawTelemetry(gateway, { signedData, data }));
    expect(await gridPowerKw(plant)).toBe(8);
    await publish(link, rawTelemetry(gateway, { signedData: data, data }));
    expect(await droppedOf(plant.id, gateway.id)).toEqual({});
    await publish(link, rawTelemetry(gateway, { signedData, data: '{"ab":1.0,"gridPowerKw":9}' }));
    expect(await droppedOf(plant.id, gateway.id)).toEqual({ SIGNATURE: 1 });
  });

  it('that is missing, of another shape or over other text drops the message, which is still stored [C-3.8]', async () => {
    const { plant, link, gateway } = await newConnectedSite();
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

  it('of one device never counts for another [spec: Device MQTT]', async () => {
    const { plant, link } = await newConnectedSite();
    const other = await createPlant(await createOrganization());
    await publish(link, rawTelemetry(other.gateway, { data: '{"gridPowerKw":1}' }));
    expect(await droppedOf(plant.id, plant.gateway.id)).toEqual({ SIGNATURE: 1 });
  });
});

describe('the time and shape of a device message', () => {
  it.each([
    [-300_000, true],
    [300_000, true],
    [-300_001, false],
    [300_001, false],
  ])('ts %i ms off the clock: kept %s [spec: Limits]', async (offsetMs, kept) => {
    const { plant, link, gateway } = await newConnectedSite();
    const payload = rawTelemetry(gateway, { ts: Date.now() + offsetMs, data: '{"gridPowerKw":1}' });
    expect(await publish(link, payload)).toBe(true);
    expect(await gridPowerKw(plant)).toBe(kept ? 1 : null);
    expect(await droppedOf(plant.id, gateway.id)).toEqual(kept ? {} : { TIMESTAMP: 1 });
  });

  it('drops and counts what is malformed, each by its reason, and answers stored [C-3.8]', async () => {
    const { plant, link, gateway } = await newConnectedSite();
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
    ['more than 256 frames', JSON.stringify(Array(257).fill({ kind: 'subscribed', commands: true }))],
    ['an unknown kind', '[{"kind":"revoke","seq":1}]'],
    ['bytes', new TextEncoder().encode('[]')],
  ])('a link message that is %s closes the link [rule 1]', async (_what, message) => {
    const { link } = await newConnectedSite();
    link.socket.send(message);
    expect(await link.untilClosed()).toMatchObject({ code: 4400 });
  });
});

describe('what is kept of a device message', () => {
  it('stores identical bytes once, in one batch, in two, and over another link [C-3.8]', async () => {
    const { plant, link, gateway } = await newConnectedSite();
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

  it('answers numbers null, MISSING and the time of the read while there is no data [C-4.1]', async () => {
    const { plant, site } = await newConnectedSite();
    const { timestamp, payload } = await site.readLatestTelemetry(plant.id);
    expect(timestamp).toBe(new Date().toISOString());
    expect(payload).toEqual({
      gridPowerKw: null,
      fvePowerKw: null,
      batteryPowerKw: null,
      consumptionPowerKw: null,
      socPercent: null,
      availableBatteryEnergyKwh: null,
      batteryTemperatureCelsius: null,
      currentOperatingMode: 'STANDARD',
      dataQuality: 'MISSING',
    });
  });

  it('reads the latest value of each signal, site values first, else sums by asset type [C-3.13]', async () => {
    const { plant, link, site, gateway } = await newConnectedSite();
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

  it('tells the registry the status that a device reports [C-3.1]', async () => {
    const { link, gateway } = await newConnectedSite();
    expect(await sendStatus(link, gateway, 'MAINTENANCE')).toBe(true);
    const told = { connection_status: 'MAINTENANCE', last_seen_at_ms: Date.now() };
    await untilRegistered('devices', gateway.id, told);
  });
});
