/** The ports of a stack: what was just ended may still be letting go of them. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { assertFree } from '../../tools/ports.ts';

describe('the ports of a stack', () => {
  it('may be taken for a moment', async () => {
    const server = createServer().listen(0);
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    const free = assertFree({ SITEWIRE_HTTP_PORT: port });
    const taken = createServer().listen(port);
    const [error] = await once(taken, 'error');
    expect(error).toMatchObject({ code: 'EADDRINUSE' });
    server.close();
    await free;
  });
});
