/** The product's side: its real Site and Vhost, with links to them and no bridge. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { SeededPlant } from '../seed.ts';
import { startBenchStack } from './bench-stack.ts';
import { dialDevice, type LinkSender, pour, startPulse } from './device-links.ts';
import { callObject } from './object-calls.ts';
import { CommandedDevice, EventClient } from './object-clients.ts';
import { type ObjectSide, SITES } from './object-paths.ts';
import { telemetryText } from './plant-load.ts';

const ENTRY = join(import.meta.dirname, 'workerd', 'called-worker.ts');
/** Enough that each device stays below its rate limit, and below its limit of open commands. */
const SENDERS = 64;
const ACTION = 'CALIBRATE';
const EVENT = { commandType: 'DEVICE_COMMAND', status: 'COMPLETED' };

/** `folder`: where its data is. */
export async function startProduct(folder: string): Promise<ObjectSide> {
  // Readings come from devices of the first plant, and commands without a Vhost go to those of the second.
  const organizations = [
    { slug: 'acme', plants: SITES },
    { slug: 'devices', plants: 2, moreDevices: SENDERS },
  ];
  const stack = await startBenchStack({ entry: ENTRY, organizations, folder });
  const stopPulse = startPulse();
  const boot = randomUUID();
  const [first, second] = stack.organizations[1]?.plants ?? [];
  const [site] = stack.plants;
  if (!site || !first || !second)
    throw new Error('The stack of this benchmark lacks plants: a bug of the benchmark');
  const devicesOf = (plant: SeededPlant) => stack.organizations[1]?.moreDevices.get(plant.id) ?? [];
  const commanded = async (device: SeededPlant['gateway']) =>
    new CommandedDevice(await dialDevice(stack, device, boot), device);
  const gateways: CommandedDevice[] = [];
  for (const { gateway } of stack.plants) gateways.push(await commanded(gateway));
  const senders: LinkSender[] = [];
  for (const one of devicesOf(first))
    senders.push({ link: await dialDevice(stack, one, boot), device: one, payloads: [] });
  const devices: CommandedDevice[] = [];
  for (const one of devicesOf(second)) devices.push(await commanded(one));
  const client = await EventClient.open(stack, boot);
  const { url } = stack.edge;
  let turn = 0;
  const inTurn = async (operations: number, batch: number, next: () => string) => {
    for (let done = 0; done < operations; done += batch) {
      const last = client.ended(batch);
      for (let count = 0; count < batch; count++) client.publish(next());
      await last;
    }
  };
  const siteId = randomUUID();
  let sequence = 0;
  const event = () => {
    sequence += 1;
    const payloadText = JSON.stringify(EVENT);
    return {
      ...{ sequence, kind: 'execution', messageId: randomUUID(), correlationId: randomUUID() },
      ...{ atMs: Date.now(), payloadText },
    };
  };
  return {
    pid: stack.edge.pid() ?? 0,
    paths: {
      reading: async (operations, batch) => {
        for (let made = 0; made < operations; made += batch) {
          const sender = senders[(made / batch) % senders.length] as LinkSender;
          for (let count = 0; count < batch; count++) sender.payloads.push(telemetryText(sender.device));
        }
        await pour(senders, operations, batch);
      },
      'command of a Site': async (operations, batch) => {
        const last = devices.map((device, index) => device.stored(shareOf(operations, index)));
        const submission = { action: ACTION, payload: {}, validUntilMs: null, idempotencyKey: null };
        const calls = Array.from({ length: operations }, (_, index) => [
          devices[index % SENDERS]?.id,
          submission,
        ]);
        const groups = Array.from({ length: operations / batch }, () => calls.splice(0, batch));
        await callObject(url, { object: 'SITE', name: second.id, method: 'submitRestCommand', groups });
        await Promise.all(last);
      },
      'command of a Vhost and a Site': (operations, batch) => inTurn(operations, batch, () => site.id),
      'command of a Vhost, each to its own Site': (operations, batch) =>
        inTurn(operations, batch, () => stack.plants[turn++ % SITES]?.id ?? ''),
      'event of a Vhost': async (operations, batch) => {
        const last = client.ended(operations);
        const groups = Array.from({ length: operations / batch }, () => [
          [siteId, Array.from({ length: batch }, event)],
        ]);
        const name = stack.organizations[0]?.apiKey.id ?? '';
        await callObject(url, { object: 'VHOST', name, method: 'receive', groups });
        await last;
      },
    },
    stop: async () => {
      stopPulse();
      for (const { link } of senders) link.close();
      for (const device of [...gateways, ...devices]) device.close();
      client.close();
      await stack.stop();
    },
  };
}

/** How many of the operations a sender does when all do them in turn. */
function shareOf(operations: number, index: number): number {
  return Math.floor((operations - index - 1) / SENDERS) + 1;
}
