/**
 * Fixtures of the bridge's tests. A fixture is created when a test that names it begins, and closed when that
 * test ends. Fixtures are created in the order of this chain: with `clock`, everything else runs on the
 * test's clock.
 */
import type { Server, Socket } from 'node:net';
import { test } from 'vitest';
import { startPulse } from '../../bridge/link.ts';
import { listen } from '../../bridge/tls.ts';
import { TestEdge } from './bridge-edge.ts';
import { openLink, openPartnerLink } from './bridge-link.ts';
import { TestClock } from './bridge-signal.ts';

export type Serve = (server: Server, port?: number, host?: string) => Promise<number>;

export const edgeTest = test
  .extend('clock', ({ task: _task }, { onCleanup }) => {
    const clock = new TestClock();
    onCleanup(() => clock.stop());
    return clock;
  })
  .extend('edge', async ({ task: _task }, { onCleanup }) => {
    const edge = await TestEdge.start();
    onCleanup(() => edge.stop());
    return edge;
  })
  // Starts a server of the test and returns its port.
  .extend('serve', ({ task: _task }, { onCleanup }) => {
    const servers = new Set<Server>();
    const sockets = new Set<Socket>();
    onCleanup(async () => {
      for (const socket of sockets) socket.destroy();
      for (const server of servers) await new Promise((resolve) => server.close(resolve));
    });
    const serve: Serve = (server, port = 0, host = '127.0.0.1') => {
      servers.add(server);
      server.on('connection', (socket) => sockets.add(socket.on('error', () => {})));
      return listen(server, port, host);
    };
    return serve;
  });

/** A device's link on the test's clock: `link` is the bridge's end, `object` the edge's end. */
export const linkTest = edgeTest
  .extend('open', async ({ clock: _clock, edge }, { onCleanup }) => {
    const stopPulse = startPulse();
    const open = await openLink(edge);
    onCleanup(() => {
      open.link.close();
      stopPulse();
    });
    return open;
  })
  .extend('partner', async ({ clock: _clock, edge }, { onCleanup }) => {
    const partner = await openPartnerLink(edge);
    onCleanup(() => partner.link.close());
    return partner;
  })
  .extend('link', ({ open }) => open.link)
  .extend('object', ({ open }) => open.object)
  .extend('owner', ({ open }) => open.owner);
