/**
 * The other side of a benchmark: a durable broker, Debian's RabbitMQ with its default settings and without
 * Nagle's algorithm.
 */
import type { CertificateFiles } from '../certificates.ts';
import { freePort } from '../ports.ts';
import { startRabbitMq } from '../rabbitmq.ts';
import type { BrokerAddress } from './amqp-load.ts';
import { pinnedTo, SYSTEM_CORE } from './cores.ts';

export interface RabbitMq {
  tcp: BrokerAddress;
  tls: BrokerAddress;
  stop(): Promise<void>;
}

/** Throws a message for the user if the package is missing. */
export async function startDurableRabbitMq(certificates: CertificateFiles): Promise<RabbitMq> {
  const tlsPort = await freePort();
  const { port, stop } = await startRabbitMq({
    settings: {
      'listeners.ssl.1': `127.0.0.1:${tlsPort}`,
      'ssl_options.cacertfile': certificates.ca,
      'ssl_options.certfile': certificates.certificate,
      'ssl_options.keyfile': certificates.key,
      'tcp_listen_options.nodelay': 'true',
    },
    command: (program) => pinnedTo(SYSTEM_CORE, program),
  });
  const login = { hostname: 'localhost', username: 'guest', password: 'guest', vhost: '/' };
  return {
    tcp: { ...login, protocol: 'amqp', port },
    tls: { ...login, protocol: 'amqps', port: tlsPort, ca: certificates.ca },
    stop,
  };
}
