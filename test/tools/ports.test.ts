/** The ports of a stack: a process that just ended may still hold them. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { assertFree, freePort } from '../../tools/ports.ts';

describe('the ports of a stack', () => {
  it('may be in use at first: the check waits until they are free', async () => {
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

  it('are refused when two of them are equal', async () => {
    const port = await freePort();
    await expect(
      assertFree({ SITEWIRE_HTTP_PORT: 0, SITEWIRE_AMQPS_PORT: port, SITEWIRE_MQTTS_PORT: port }),
    ).rejects.toThrow(
      `port ${port} is set for both SITEWIRE_AMQPS_PORT and SITEWIRE_MQTTS_PORT: choose another port for one of them`,
    );
    await assertFree({ SITEWIRE_HTTP_PORT: 0, SITEWIRE_METRICS_PORT: 0, SITEWIRE_AMQPS_PORT: port });
  });
});

describe('a free port', () => {
  it('is different each time, though no process listens on earlier ones', async () => {
    // Of the 1 500 ports of a test run, two would be equal if chosen only by chance.
    const ports = [];
    for (let n = 0; n < 200; n++) ports.push(await freePort());
    expect(new Set(ports).size).toBe(200);
  });

  it('is never a port already given out, though no process listens there yet', async () => {
    const all = Array.from({ length: 12_000 }, (_none, index) => 20_000 + index);
    await expect(freePort(all)).rejects.toThrow('no free port found in 100 attempts');
  });
});
