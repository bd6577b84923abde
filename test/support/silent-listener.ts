/**
 * Listens at a port of this machine in place of another server: accepts connections, and never sends a byte.
 */
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';

export class SilentListener {
  readonly #server: Server;
  readonly #held = new Set<Socket>();

  private constructor(server: Server) {
    this.#server = server;
    server.on('connection', (socket) => {
      socket.on('error', () => {});
      this.#held.add(socket);
    });
  }

  static async at(port: number): Promise<SilentListener> {
    const listener = new SilentListener(createServer());
    listener.#server.listen(port);
    await once(listener.#server, 'listening');
    return listener;
  }

  /** Whether any client has connected. */
  get isDialed(): boolean {
    return this.#held.size > 0;
  }

  /** Ends every connection. */
  hangUp(): void {
    for (const socket of this.#held) socket.destroy();
  }

  async stop(): Promise<void> {
    this.hangUp();
    this.#server.close();
    await once(this.#server, 'close');
  }
}
