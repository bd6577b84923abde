/**
 * Sitewire's side of the benchmark `amqp`, in its own process: the bridge's AMQP engine with a queue in
 * memory.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { AmqpConnection } from '../../bridge/amqp/connection.ts';
import { createTlsListener } from '../../bridge/tls.ts';
import { readTlsFiles } from '../../bridge/tls-files.ts';
import { SCOPES_HEADER, VHOST_HEADER } from '../../protocol/link/proof.ts';
import { API_KEY_SCOPES } from '../../protocol/scopes.ts';
import { MemoryQueue, MemoryVhost } from './memory-vhost.ts';

const [vhost = '', certificate = '', key = ''] = process.argv.slice(2);
const queue = new MemoryQueue();
const headers = { [VHOST_HEADER]: vhost, [SCOPES_HEADER]: API_KEY_SCOPES.join(',') };

function accept(socket: Socket): void {
  new AmqpConnection(socket, async () => ({ outcome: 'accepted', link: new MemoryVhost(queue), headers }), {
    opened: () => {},
    refused: () => {},
    closed: () => {},
    published: () => {},
    answered: () => {},
    delivered: () => {},
  });
}

async function portOf(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

const tcp = await portOf(createServer({ noDelay: true }, accept));
const tls = await portOf(
  createTlsListener(readTlsFiles({ certificate, key }), ({ socket }) => accept(socket)).server,
);
process.send?.({ tcp, tls });
