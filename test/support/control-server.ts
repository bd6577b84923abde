/**
 * The faulty Worker asks this server at each named step whether it may continue. A held step gets no answer,
 * so its caller stops there until the test releases or kills it.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Step } from './step.ts';

export interface Hold {
  /** Resolves when a caller waits at the step. */
  reached: Promise<void>;
  /** Releases the step; if no caller has arrived yet, none will be held. */
  release(): void;
}

interface Held extends Hold {
  step: Step;
  subject: string | undefined;
  arrive(response: ServerResponse): void;
}

export class ControlServer {
  readonly #server = createServer((request, response) => this.#answer(request, response));
  readonly #holds = new Set<Held>();

  async start(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  /** The bindings that the faulty Worker needs. */
  get bindings(): Record<string, string> {
    return { CONTROL_URL: `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` };
  }

  /** Holds the next caller at a step. `subject`: only a caller for that site. */
  hold(step: Step, options: { subject?: string } = {}): Hold {
    let waiting: ServerResponse | undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    const held: Held = {
      step,
      subject: options.subject,
      reached: promise,
      arrive: (response) => {
        waiting = response;
        resolve();
      },
      release: () => {
        this.#holds.delete(held);
        waiting?.end();
      },
    };
    this.#holds.add(held);
    return held;
  }

  /** Makes the step fail for its next caller. */
  failOnce(step: Step): void {
    const failing: Held = {
      step,
      subject: undefined,
      reached: Promise.resolve(),
      arrive: (response) => response.writeHead(500).end(),
      release: () => this.#holds.delete(failing),
    };
    this.#holds.add(failing);
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
      this.#holds.delete(held);
      held.arrive(response);
      return;
    }
    response.end();
  }
}
