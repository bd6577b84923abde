/** RabbitMQ of the baseline: one vhost for all partners, over TLS, with durable queues for commands and events. */
import {
  EVENT_KINDS,
  EVENT_QUEUES,
  EXCHANGE,
  eventRoutingKey,
  fullQueueName,
} from '../../../protocol/routing-keys.ts';
import type { CertificateFiles } from '../../certificates.ts';
import { freePort } from '../../ports.ts';
import { startRabbitMq } from '../../rabbitmq.ts';
import { pinnedTo, SYSTEM_CORE } from '../cores.ts';
import { COMMAND_QUEUE, SLUG, VHOST } from './settings.ts';

export interface PartnerBroker {
  pid: number;
  ports: { tcp: number; tls: number };
  stop(): Promise<void>;
}

/** `keys`: number of API keys that get every event, each in queues of its own. */
export async function startPartnerBroker(
  certificates: CertificateFiles,
  password: string,
  keys: number,
): Promise<PartnerBroker> {
  const tls = await freePort();
  const { port, pid, stop } = await startRabbitMq({
    settings: {
      'listeners.ssl.1': `127.0.0.1:${tls}`,
      'ssl_options.cacertfile': certificates.ca,
      'ssl_options.certfile': certificates.certificate,
      'ssl_options.keyfile': certificates.key,
      'tcp_listen_options.nodelay': 'true',
    },
    definitions: definitions(password, keys),
    command: (program) => pinnedTo(SYSTEM_CORE, program),
  });
  return { pid, ports: { tcp: port, tls }, stop };
}

/** The exchange, the queue of commands, and the event queues of each key. */
function definitions(password: string, keys: number): object {
  const queue = (name: string) => ({ name, vhost: VHOST, durable: true, auto_delete: false, arguments: {} });
  const binding = (destination: string, routingKey: string) => ({
    ...{ source: EXCHANGE, vhost: VHOST, destination, destination_type: 'queue', routing_key: routingKey },
    arguments: {},
  });
  const bindings = [binding(COMMAND_QUEUE, `${SLUG}.command.#`)];
  for (let key = 0; key < keys; key++) {
    for (const kind of EVENT_KINDS)
      bindings.push(binding(eventQueue(EVENT_QUEUES[kind], key), eventRoutingKey(SLUG, kind)));
  }
  return {
    users: [{ name: SLUG, password, tags: '' }],
    vhosts: [{ name: VHOST }],
    permissions: [{ user: SLUG, vhost: VHOST, configure: '', write: '.*', read: '.*' }],
    exchanges: [
      {
        name: EXCHANGE,
        vhost: VHOST,
        type: 'topic',
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: {},
      },
    ],
    queues: [...new Set(bindings.map(({ destination }) => destination))].map(queue),
    bindings,
  };
}

/** The event queue of a key: that of the first has the name that it has in the product. */
export function eventQueue(name: (typeof EVENT_QUEUES)[keyof typeof EVENT_QUEUES], key: number): string {
  const full = fullQueueName(SLUG, name);
  return key === 0 ? full : `${full}.${key}`;
}
