/** A RabbitMQ with the same queues as a partner's vhost, and its users with their permissions. */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { startRabbitMq } from '../../tools/rabbitmq.ts';
import type { Broker, Lane, Rights } from '../conformance/amqp/broker.ts';

/** Names as long as ours, because long texts are truncated. */
const USER = 'acme-rabbit';
const PASSWORD = 'a-password-of-conformance';
const OTHER_VHOST = `partner-${randomUUID()}`;
const OUR_QUEUES = [
  ...['event.alarm', 'event.status', 'event.execution', 'event.telemetry', 'dead-letter'],
  ...['command', 'schedule', 'config'],
];
/** Published messages are routed where our malformed publishes go. */
const DEAD_LETTER_KEYS = ['command.#', 'schedule.#', 'config.#'];
/** The families of the routing keys that a key may publish to [C-6.2]. */
const PUBLISHED =
  '^$U\\.(command\\.(site-setpoint|emergency|mode|device(\\.[^.*#]+)?)|(schedule|config)\\.[^.*#]+)$';

export interface RabbitVhost {
  name: string;
  rights: Rights;
  maxConnections?: number;
}

/** Keyed by the routing key's own name for the family. */
type OpenVhost = RabbitVhost & { vhost: string };

/** RabbitMQ gets our limits, so that their effects can be compared [C-6.3]. */
const SETTINGS = { channel_max: 64, max_message_size: 262_144 };
/** RabbitMQ shares its cores with the clients of the test. */
const NO_BUSY_WAIT = '+sbwt none +sbwtdcpu none +sbwtdio none';

export async function startRabbit(groups: readonly RabbitVhost[]): Promise<Broker> {
  const vhosts = groups.map((group) => ({ ...group, vhost: `partner-${randomUUID()}` }));
  const { port, stop } = await startRabbitMq({
    settings: SETTINGS,
    definitions: definitionsOf(vhosts),
    runtime: NO_BUSY_WAIT,
  });
  const open = async () => {
    const socket = connect({ host: '127.0.0.1', port, noDelay: true });
    await once(socket, 'connect');
    return socket;
  };
  const lane = async (group: string): Promise<Lane> => ({
    user: USER,
    password: PASSWORD,
    vhost: vhosts.find(({ name }) => name === group)?.vhost ?? '',
    otherVhost: OTHER_VHOST,
    connect: open,
  });
  return { lane, stop };
}

function definitionsOf(vhosts: readonly OpenVhost[]): object {
  const named = (text: string) => text.replaceAll('$U', USER);
  const queueName = (name: string) => `vcp.${USER}.${name}`;
  const empty = { arguments: {} };
  const names = [...vhosts.map(({ vhost }) => vhost), OTHER_VHOST];
  const inEach = (entries: object[]) =>
    names.flatMap((vhost) => entries.map((entry) => ({ ...entry, ...empty, vhost })));
  return {
    users: [{ name: USER, ...hashOf(PASSWORD), tags: '' }],
    vhosts: names.map((name) => ({ name })),
    permissions: vhosts.map(({ vhost, rights: { configure, write, read } }) => ({
      user: USER,
      vhost,
      configure: named(configure),
      write: named(write),
      read: named(read),
    })),
    topic_permissions: vhosts.map(({ vhost }) => ({
      user: USER,
      vhost,
      exchange: 'vcp',
      write: named(PUBLISHED),
      read: named('^$U\\.event\\.'),
    })),
    parameters: vhosts.flatMap(({ vhost, maxConnections }) =>
      maxConnections === undefined
        ? []
        : { component: 'vhost-limits', name: 'limits', vhost, value: { 'max-connections': maxConnections } },
    ),
    exchanges: inEach([{ name: 'vcp', type: 'topic', durable: true, auto_delete: false, internal: false }]),
    queues: inEach(OUR_QUEUES.map((name) => ({ name: queueName(name), durable: true, auto_delete: false }))),
    bindings: inEach(
      DEAD_LETTER_KEYS.map((key) => ({
        source: 'vcp',
        destination: queueName('dead-letter'),
        destination_type: 'queue',
        routing_key: `${USER}.${key}`,
      })),
    ),
  };
}

function hashOf(password: string): object {
  const salt = randomBytes(4);
  const hash = createHash('sha256')
    .update(Buffer.concat([salt, Buffer.from(password)]))
    .digest();
  return {
    password_hash: Buffer.concat([salt, hash]).toString('base64'),
    hashing_algorithm: 'rabbit_password_hashing_sha256',
  };
}
