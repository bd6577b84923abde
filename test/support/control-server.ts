/**
 * Where the faulty Worker asks at each named step whether it may go on. A held step gets no answer, so what called
 * goes no further until the test releases it, or kills it.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Step } from './step.ts';

export interface Hold {
  /** Resolves when something stands at the step. */
  reached: Promise<void>;
  /** How many stand there now. */
  standing(): number;
  /** Lets all go on that stand there, and holds no more. */
  release(): void;
}

interface Held extends Hold {
  step: Step;
  subject: string | undefined;
  once: boolean;
  arrive(response: ServerResponse): void;
}

export class ControlServer {
  readonly #server: Server;
  readonly #holds = new Set<Held>();

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<ControlServer> {
    const server = createServer();
    const control = new ControlServer(server);
    server.on('request', (request, response) => control.#answer(request, response));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return control;
  }

  /** The bindings that the faulty Worker wants. */
  get bindings(): Record<string, string> {
    return { CONTROL_URL: `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` };
  }

  /** Holds who comes to a step next; with `every`, all that come until the release. `subject`: only of that site. */
  hold(step: Step, options: { subject?: string; every?: boolean } = {}): Hold {
    const waiting: ServerResponse[] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    const held: Held = {
      step,
      subject: options.subject,
      once: options.every !== true,
      reached: promise,
      standing: () => waiting.filter((response) => !response.destroyed).length,
      arrive: (response) => {
        waiting.push(response);
        resolve();
      },
      release: () => {
        this.#holds.delete(held);
        for (const response of waiting.splice(0)) response.end();
      },
    };
    this.#holds.add(held);
    return held;
  }

  /** Makes the step fail for who comes there next. */
  failOnce(step: Step): void {
    const { promise, resolve } = Promise.withResolvers<void>();
    const held: Held = {
      step,
      subject: undefined,
      once: true,
      reached: promise,
      standing: () => 0,
      arrive: (response) => {
        response.writeHead(500).end();
        resolve();
      },
      release: () => this.#holds.delete(held),
    };
    this.#holds.add(held);
  }

  async stop(): Promise<void> {
    for (const held of this.#holds) held.release();
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', 'http://control');
    const step = url.pathname.slice(1);
    const subject = url.searchParams.get('subject');
    for (const held of this.#holds) {
      if (held.step !== step || (held.subject !== undefined && held.subject !== subject)) continue;
      if (held.once) this.#holds.delete(held);
      held.arrive(response);
      return;
    }
    response.end();
  }
}
