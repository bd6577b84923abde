/**
 * The whole path against RabbitMQ: TLS, bridge, Vhost and one Site, with a confirm when the command is
 * recorded. Each publish is a signed command for an unknown sub-device: it is verified, validated, logged and
 * answered with one event.
 */
import { createHmac, randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { envelopeSigningString } from '../../protocol/signing.ts';
import { LoadClient } from './amqp-load.ts';
import { durableQueue, measureRound, type Side } from './amqp-sides.ts';
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { METERED_ENTRY, OBJECT_KINDS, readMeters, rowsOf, sum } from './meters.ts';
import { startDurableRabbitMq } from './rabbitmq.ts';
import { alone, compared, type Measured, ROUNDS, type Sides } from './runner.ts';

const LOAD = { messages: 2_000, warmUp: 2_000, inFlight: 100 };
const ROWS_MESSAGES = 1_000;
/** Pause before the rows are counted, so that rows that are written with a delay are counted, too. */
const ROWS_SETTLE_MS = 8_000;
const ROUTING_KEY = 'acme.command.device';

export const throughVhost = compared({
  title: `commands through bridge, Vhost and Site against durable RabbitMQ, ${ROUNDS} rounds`,
  other: 'RabbitMQ',
  start: startWhole,
  load: async (side) => side,
  warmUp: (side) => measureRound(side, LOAD.warmUp, LOAD.inFlight),
  measure: (side) => measureRound(side, LOAD.messages, LOAD.inFlight),
});

/** Counted in a separate run, because metering takes time. */
export const rowsOfPublishes = alone({
  title: 'rows that Site and Vhost write for a publish and its event',
  stack: { entry: METERED_ENTRY },
  measure: countRows,
});

async function startWhole(): Promise<Sides<Side>> {
  const stack = await startBenchStack();
  const rabbitMq = await startDurableRabbitMq(stack.certificates);
  const ours = await sideOf(stack);
  return {
    sides: [ours, await durableQueue(rabbitMq.tls, ours.bodies)],
    stop: async () => {
      await rabbitMq.stop();
      await stack.stop();
    },
  };
}

async function sideOf(stack: BenchStack): Promise<Side> {
  const { host, port, slug, key, vhost, ca = '', signingKey } = stack.partnerOptions();
  const siteId = stack.plants[0]?.id ?? '';
  return {
    address: { protocol: 'amqps', hostname: host, port, username: slug, password: key, vhost, ca },
    route: { exchange: 'vcp', routingKey: ROUTING_KEY },
    queues: [`vcp.${slug}.event.status`],
    bodies: (count) => Array.from({ length: count }, () => signedCommand(siteId, signingKey)),
  };
}

function signedCommand(siteId: string, signingKey: string): Buffer {
  const command = { deviceId: 'BESS-0', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw: 5 } };
  const payload = { commands: [command] };
  const envelope = {
    version: '1.1',
    messageId: randomUUID(),
    correlationId: randomUUID(),
    timestamp: new Date().toISOString(),
    source: 'acme-trader',
    siteId,
  };
  const signed = envelopeSigningString(envelope, ROUTING_KEY, JSON.stringify(payload)) ?? '';
  const signature = createHmac('sha256', signingKey).update(signed).digest('hex');
  return Buffer.from(JSON.stringify({ ...envelope, payload, signature }));
}

async function countRows(stack: BenchStack): Promise<Measured> {
  const side = await sideOf(stack);
  const client = await LoadClient.connect(side.address);
  const rows = async (): Promise<Record<string, number>> => {
    await pause(ROWS_SETTLE_MS);
    const meters = await readMeters(stack);
    return Object.fromEntries(OBJECT_KINDS.map((kind) => [kind, sum(meters[kind].map(rowsOf))]));
  };
  const both = async (messages: number) => {
    await client.publish(side.route, side.bodies(messages), LOAD.inFlight);
    await client.take(side.queues, messages);
  };
  await both(1);
  const before = await rows();
  await both(ROWS_MESSAGES);
  const after = await rows();
  await client.close();
  const perMessage = (kind: string) => ((after[kind] ?? 0) - (before[kind] ?? 0)) / ROWS_MESSAGES;
  return Object.fromEntries(
    OBJECT_KINDS.map((kind) => [
      `rows written per publish and its event (${kind})`,
      { value: perMessage(kind), unit: 'rows' },
    ]),
  );
}
