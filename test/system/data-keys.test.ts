/** A data key is retired: everything that it sealed is sealed again with the newest one, and then it is not needed [C-14.7]. */
import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { setpointOrder } from '#support/returning-partner.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import { Operator } from '../../tools/admin-client.ts';

interface Counts {
  versions: Record<string, number>;
  next: string | null;
}

const stack = suiteStack();

async function counts(): Promise<Counts> {
  const operator = new Operator(stack.edge.url, stack.credentials.operatorToken);
  return await operator.call<Counts>('GET', '/data-keys');
}

it('a data key can be removed when no value is sealed with it any more; gateway and partner still connect and send commands [C-14.7]', async () => {
  const old = stack.credentials.dataKeys;
  const next = `2:${randomBytes(32).toString('hex')}`;
  const alone = await stack.addDevice(null);
  // The signing key of the API key, the secrets of the plant's gateway and of the device without a plant.
  expect(await counts()).toEqual({ versions: { 1: 3 }, next: null });

  await stack.restartEdge({ dataKeys: `${next},${old}` });
  expect(await counts()).toEqual({ versions: { 2: 3 }, next: null });

  await stack.restartEdge({ dataKeys: next });
  const devices = [await stack.gateway(), await stack.gateway(alone)];
  const partner = await stack.partner();
  await partner.consume('event.status');
  const [gateway] = devices;
  await eventually(() => devices.every((device) => device.connected) || undefined);
  await gateway?.publishTelemetry({ gridPowerKw: 1 });
  const { plantId } = stack.credentials;
  const { correlationId } = await partner.publish('site-setpoint', plantId, setpointOrder(plantId).payload);
  const ack = await partner.waitFor((event) => event.correlationId === correlationId);
  expect(ack.payload.status).toBe('ACCEPTED');
  await partner.close();
  for (const device of devices) await device.stop();
});

it('values are still counted by their data key after that key was removed from the configuration [C-14.7]', async () => {
  const known = stack.credentials.dataKeys;
  const before = await counts();
  await stack.restartEdge({ dataKeys: `3:${randomBytes(32).toString('hex')}` });
  expect(await counts()).toEqual(before);
  await stack.restartEdge({ dataKeys: known });
});
