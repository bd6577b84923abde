/** The baseline of the benchmarks checks the same as the product; its servers are not part of this suite. */
import { describe, expect, it } from 'vitest';
import { hmacHex } from '../../../durable-objects/secrets/hmac.ts';
import { ACTION_PAYLOADS, mqttCommand } from '../../../protocol/action.ts';
import { acknowledgement, eventEnvelope } from '../../../protocol/event.ts';
import { commandSigningString, envelopeSigningString } from '../../../protocol/signing.ts';
import { Batches } from '../../../tools/bench/baseline/batches.ts';
import {
  checkDeviceMessage,
  checkPublish,
  judge,
  type Plant,
  signedCommand,
  signedEvent,
} from '../../../tools/bench/baseline/checks.ts';
import { telemetryText } from '../../../tools/bench/plant-load.ts';
import { compared, withAims } from '../../../tools/bench/runner.ts';
import { signedPublish } from '../../../tools/partner.ts';

const KEY = { slug: 'acme', signingKey: 'ab'.repeat(32) };
const GATEWAY = { id: '6c1a7e0e-8d9c-4a52-9a4e-1f6f6c1f7a10', hmacSecret: 'cd'.repeat(32), token: '' };
const PLANT: Plant = {
  ...{ id: '0e0c2b1a-90a5-4a55-8a6b-6d0a3fb1c001', gateway: GATEWAY, maxChargeKw: 50 },
  subDevices: new Map([['BESS-1', 'BESS']]),
};

function publish(powerKw = 5) {
  const params = { powerKw };
  const commands = [{ deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE', params }];
  return signedPublish(KEY.slug, KEY.signingKey, 'device', PLANT.id, { commands });
}

function checked(powerKw?: number) {
  const { routingKey, body } = publish(powerKw);
  const result = checkPublish(KEY, routingKey, body);
  if (!result.ok) throw new Error(result.refusal);
  return result.value;
}

describe('the baseline', () => {
  it('accepts a signed publish, and refuses one that was changed, is unsigned or is of another organization', () => {
    const { routingKey, body } = publish();
    const unsigned = signedPublish('acme', KEY.signingKey, 'device', PLANT.id, {}, { signed: false });
    expect(checkPublish(KEY, routingKey, body).ok).toBe(true);
    expect(checkPublish(KEY, routingKey, body.replace('"powerKw":5', '"powerKw":6')).ok).toBe(false);
    expect(checkPublish(KEY, routingKey, body.replace('acme-trader', 'other-trader')).ok).toBe(false);
    expect(checkPublish(KEY, routingKey, unsigned.body).ok).toBe(false);
    expect(checkPublish({ ...KEY, slug: 'acme2' }, routingKey, body).ok).toBe(false);
  });

  it('rejects a command for another plant, and one above the limit', () => {
    expect(judge(checked(), PLANT)).toMatchObject({ status: 'ACCEPTED' });
    expect(judge(checked(), undefined)).toMatchObject({ status: 'REJECTED' });
    expect(judge(checked(51), PLANT)).toMatchObject({ status: 'REJECTED' });
  });

  it('sends a device the command that the product would, signed', () => {
    const { cmdId, ts, action, payload, sig } = mqttCommand.parse(
      JSON.parse(signedCommand(GATEWAY, 'c-1', checked().items, 1_000)),
    );
    expect(ACTION_PAYLOADS.BESS_CHARGE.parse(payload).targets).toHaveLength(1);
    const text = commandSigningString(GATEWAY.id, cmdId, ts, action, JSON.stringify(payload));
    expect(sig).toBe(hmacHex(GATEWAY.hmacSecret, text));
  });

  it('sends events in the form of the product, signed', () => {
    const about = { siteId: PLANT.id, correlationId: 'c-1' };
    const { routingKey, body } = signedEvent(KEY, 'ack', about, judge(checked(), PLANT), 1_000);
    const { signature, payload, ...envelope } = eventEnvelope.parse(JSON.parse(body));
    acknowledgement.parse(payload);
    const text = envelopeSigningString(envelope, routingKey, JSON.stringify(payload)) ?? '';
    expect(signature).toBe(hmacHex(KEY.signingKey, text));
  });

  it('accepts a reading of its device, and refuses a changed or an old one', () => {
    const now = Date.now();
    const text = telemetryText(GATEWAY);
    expect(checkDeviceMessage(GATEWAY, 'telemetry', text, now).ok).toBe(true);
    const changed = text.replace('"gridPowerKw":', '"gridPowerKw":1');
    expect(checkDeviceMessage(GATEWAY, 'telemetry', changed, now).ok).toBe(false);
    expect(checkDeviceMessage(GATEWAY, 'telemetry', text, now + 400_000).ok).toBe(false);
  });
});

describe('batches', () => {
  it('share what arrives while one is under way, in order and at most so many', async () => {
    const runs: number[][] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    const batches = new Batches<number>(
      async (items) => {
        runs.push(items);
        if (items.includes(5)) resolve();
        await Promise.resolve();
      },
      { most: 2 },
    );
    for (const item of [1, 2, 3, 4, 5]) batches.add(item);
    await promise;
    expect(runs).toEqual([[1, 2], [3, 4], [5]]);
  });
});

describe('a comparison', () => {
  it('divides each round by the round of the other side, and has no ratio of counts that are 0', async () => {
    const ended: string[] = [];
    const comparison = compared<{ rates: number[] }, { rates: number[] }>({
      title: 'rates',
      aims: { rate: '≥ 1.0' },
      other: 'baseline',
      start: async () => ({
        sides: [{ rates: [10, 20, 30, 20, 20] }, { rates: [10, 10, 10, 10, 10] }],
        stop: async () => void ended.push('sides'),
      }),
      load: async (side) => side,
      measure: async ({ rates }) => ({
        rate: { value: rates.shift() ?? Number.NaN, unit: '1/s' },
        lost: { value: 0, unit: '' },
      }),
      end: () => ended.push('clients'),
    });
    const figures = await withAims(comparison);
    expect(ended).toEqual(['clients', 'clients', 'sides']);
    expect(figures.map(({ name, value }) => [name, value])).toEqual([
      ['rate, ours', 20],
      ['rate, baseline', 10],
      ['rate, ratio', 2],
      ['lost, ours', 0],
      ['lost, baseline', 0],
    ]);
    expect(figures.map(({ target }) => target)).toEqual([
      undefined,
      undefined,
      '≥ 1.0',
      undefined,
      undefined,
    ]);
    expect(figures[2]).toMatchObject({ least: 1, most: 3 });
  });
});
