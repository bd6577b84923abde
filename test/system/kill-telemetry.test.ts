/**
 * kill -9 while a device has thousands of readings under way, in batches as large as a link takes: each reading that was
 * acknowledged is readable exactly once, and so is each that the device sent again.
 */
import { createHmac, randomUUID } from 'node:crypto';
import { connect } from 'mqtt';
import { describe, expect, it } from 'vitest';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import { telemetrySigningString } from '../../protocol/signing.ts';
import { deviceTopic } from '../../protocol/topics.ts';

const READINGS = 4_000;
const ACKNOWLEDGED_BEFORE_A_KILL = [500, 1_500, 2_500];

interface RawReadings {
  readings: { timestamp: string; value: number }[];
}

/** A signed reading of that value, as a device sends it, and sends it again. */
function readingText({ id, hmacSecret }: { id: string; hmacSecret: string }, ts: number, value: number) {
  const nonce = randomUUID();
  const data = `{"gridPowerKw":${value}}`;
  const sig = createHmac('sha256', hmacSecret)
    .update(telemetrySigningString(id, ts, nonce, data))
    .digest('hex');
  return `{"ts":${ts},"nonce":"${nonce}","data":${data},"sig":"${sig}"}`;
}

describe('a kill -9 while a device sends four thousand readings', () => {
  const stack = suiteStack({ bridgeProcess: true });

  const kills = {
    bridge: async () => {
      await stack.bridge.kill();
      await stack.restartBridge();
    },
    edge: () => stack.killEdge(),
    both: async () => {
      await Promise.all([stack.bridge.kill(), stack.killEdge()]);
      await stack.restartBridge();
    },
  };

  it.each(['bridge', 'edge', 'both'] as const)(
    'leaves each reading readable exactly once, three times: %s [C-3.6]',
    async (victim) => {
      const { id: plantId, gateway } = await stack.addPlant();
      const client = connect({
        ...{ protocol: 'mqtts', host: 'localhost', port: stack.bridge.ports.mqtts, ca: stack.ca },
        ...{ username: gateway.id, password: await stack.deviceToken(gateway.id) },
        ...{ reconnectPeriod: 100, reconnectOnConnackError: true },
      });
      client.on('error', () => {});
      try {
        await eventually(() => client.connected || undefined);
        const firstMs = Date.now() - READINGS;
        const topic = deviceTopic(gateway.id, 'telemetry');
        let acknowledged = 0;
        const all = Promise.all(
          Array.from({ length: READINGS }, async (_, index) => {
            // The client sends it again after each reconnect, until it is acknowledged.
            await client.publishAsync(topic, readingText(gateway, firstMs + index, index), { qos: 1 });
            acknowledged += 1;
          }),
        );
        for (const count of ACKNOWLEDGED_BEFORE_A_KILL) {
          await eventually(() => acknowledged >= count || undefined, 30_000);
          await kills[victim]();
        }
        await all;

        const [from, to] = [firstMs, firstMs + READINGS].map((ms) => new Date(ms).toISOString());
        const query = `metric=gridPowerKw&from=${from}&to=${to}&granularity=raw`;
        const { status, body } = await stack.rest(`/vcp/sites/${plantId}/telemetry?${query}`);
        expect(status).toBe(200);
        const values = (body as RawReadings).readings.map(({ value }) => value);
        expect(values).toEqual(Array.from({ length: READINGS }, (_, index) => index));
      } finally {
        await client.endAsync(true);
      }
    },
    90_000,
  );
});
