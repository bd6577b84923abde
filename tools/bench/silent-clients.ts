/**
 * A separate process: clients that open connections as fast as they can and then send nothing. The order says from how
 * many loopback addresses: the bridge counts by address.
 */
import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls, createSecureContext } from 'node:tls';
import { repeat } from './plant-load.ts';

/** `tls`: each completes its TLS handshake; `tcp`: it sends no byte at all. */
export interface SilentOrder {
  kind: 'open';
  port: number;
  layer: 'tls' | 'tcp';
  count: number;
  /** Number of addresses from 127.1.0.0 on. */
  addresses: number;
}

export type SilentWord = { kind: 'opened'; opened: number; failed: number; seconds: number };

/** Maximum number of concurrent handshakes. */
const AT_ONCE = 200;

/** All connections share one TLS context, because a new context takes longer than a handshake. */
const secureContext = createSecureContext();
const open = new Set<Socket>();

async function openAll({ port, layer, count, addresses }: SilentOrder): Promise<void> {
  const startedAt = performance.now();
  let [next, opened, failed] = [0, 0, 0];
  await repeat(
    AT_ONCE,
    () => next >= count,
    async () => {
      const index = next++ % addresses;
      const localAddress = `127.1.${index >> 8}.${index & 255}`;
      await openOne(port, layer, localAddress).then(
        () => (opened += 1),
        () => (failed += 1),
      );
    },
  );
  const seconds = (performance.now() - startedAt) / 1_000;
  process.send?.({ kind: 'opened', opened, failed, seconds } satisfies SilentWord);
}

async function openOne(port: number, layer: SilentOrder['layer'], localAddress: string): Promise<void> {
  const to = { host: '127.0.0.1', port, localAddress };
  const socket =
    layer === 'tcp' ? connectTcp(to) : connectTls({ ...to, secureContext, rejectUnauthorized: false });
  open.add(socket);
  socket.once('close', () => open.delete(socket));
  const settled = once(socket, layer === 'tcp' ? 'connect' : 'secureConnect');
  await settled.finally(() => socket.on('error', () => {}));
  // The client reads and discards what it gets, so that it notices when the bridge closes the connection.
  socket.resume();
}

process.on('message', (order: SilentOrder) => void openAll(order));
process.on('disconnect', () => process.exit(0));
