/**
 * A TCP proxy that a test can disturb: while held, it accepts and passes nothing, so both ends see a
 * half-open peer; when cut, both ends see the connection end. Held bytes continue at `resume`.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, connect as dial, type Server, type Socket } from 'node:net';

/** `up` is from the dialing side to the target. */
export type Direction = 'up' | 'down';

export class TcpProxy {
  readonly #server: Server;
  readonly #pairs = new Set<{ up: Socket; down: Socket }>();
  readonly #held = new Set<Direction>();
  #refuses = false;
  /** The number of refused connections. */
  refused = 0;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(targetPort: number): Promise<TcpProxy> {
    const server = createServer({ noDelay: true });
    const proxy = new TcpProxy(server);
    server.on('connection', (client) => proxy.#accept(client, targetPort));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Holds the bytes in these directions, on existing and later connections. */
  hold(...directions: Direction[]): void {
    for (const direction of directions) this.#held.add(direction);
    for (const pair of this.#pairs) this.#apply(pair);
  }

  resume(): void {
    this.#held.clear();
    for (const pair of this.#pairs) this.#apply(pair);
  }

  /** Ends every connection at both ends; held bytes are lost. */
  cut(): void {
    for (const { up, down } of this.#pairs) {
      up.destroy();
      down.destroy();
    }
  }

  /** Refuses new connections until `accept`. */
  refuse(): void {
    this.#refuses = true;
  }

  accept(): void {
    this.#refuses = false;
  }

  async stop(): Promise<void> {
    this.refuse();
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #accept(client: Socket, targetPort: number): void {
    if (this.#refuses) {
      this.refused += 1;
      client.destroy();
      return;
    }
    const target = dial({ port: targetPort, host: '127.0.0.1', noDelay: true });
    const pair = { up: client, down: target };
    this.#pairs.add(pair);
    this.#pass(client, target, 'up');
    this.#pass(target, client, 'down');
    const end = () => {
      this.#pairs.delete(pair);
      client.destroy();
      target.destroy();
    };
    for (const socket of [client, target]) {
      socket.on('error', () => {});
      socket.on('close', end);
    }
    this.#apply(pair);
  }

  #pass(from: Socket, to: Socket, direction: Direction): void {
    from.on('data', (chunk) => {
      if (!to.write(chunk)) from.pause();
    });
    to.on('drain', () => {
      if (!this.#held.has(direction)) from.resume();
    });
    from.on('end', () => {
      if (!this.#held.has(direction)) to.end();
    });
  }

  #apply(pair: { up: Socket; down: Socket }): void {
    for (const direction of ['up', 'down'] as const) {
      if (this.#held.has(direction)) pair[direction].pause();
      else pair[direction].resume();
    }
  }
}
