/**
 * A Worker without logic, the minimal reproduction of how workerd's memory grows: one object repeats one operation of
 * the runtime, and the benchmark watches the process from outside. It imports nothing of the product.
 */
import { DurableObject } from 'cloudflare:workers';
import type { Operation } from '../operation-kinds.ts';
import { OneRow } from './rows.ts';

interface Env {
  LOOP: DurableObjectNamespace<Loop>;
  DB: D1Database;
}

/** Operations that run at once where one by one would only wait. */
const AT_ONCE = 100;
const FAR_MS = 5_000;

export class Loop extends DurableObject<Env> {
  readonly #row: OneRow;
  #alarms: { left: number; done: () => void } | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#row = new OneRow(ctx.storage);
  }

  async repeat(operation: Operation, times: number): Promise<void> {
    if (operation === 'alarm') return await this.#ring(times);
    if (operation === 'waitUntil, held by the first') return await this.#holdOpen(times);
    for (let done = 0; done < times; done += AT_ONCE) {
      await Promise.all(
        Array.from({ length: AT_ONCE }, (_none, index) => this.#once(operation, done + index)),
      );
    }
  }

  nothing(): void {}

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): void {
    socket.send(message);
  }

  override async fetch(): Promise<Response> {
    const [client, server] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket];
    this.ctx.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }

  override alarm(): void {
    if (!this.#alarms) return;
    this.#alarms.left -= 1;
    // The runtime would take an alarm for the same time as this one for this one.
    if (this.#alarms.left > 0) void this.ctx.storage.setAlarm(Date.now() + 1);
    else this.#alarms.done();
  }

  async #once(operation: Operation, turn: number): Promise<void> {
    const { storage } = this.ctx;
    const other = () => this.env.LOOP.get(this.env.LOOP.idFromName('other'));
    switch (operation) {
      case 'timer that is cancelled':
        clearTimeout(setTimeout(() => {}, FAR_MS));
        return;
      case 'timer that fires':
        await new Promise((resolve) => setTimeout(resolve, 1));
        return;
      case 'waitUntil':
        this.ctx.waitUntil(Promise.resolve());
        return;
      case 'RPC call':
        await other().nothing();
        return;
      case 'transactionSync':
        storage.transactionSync(() => this.#row.write(turn));
        return;
      case 'write and sync':
        this.#row.write(turn);
        await storage.sync();
        return;
      case 'setAlarm':
        await storage.setAlarm(Date.now() + 60_000 + turn);
        return;
      case 'D1 query':
        await this.env.DB.prepare('SELECT 1').first();
        return;
      default:
        throw new Error(`operation "${operation}" is not one of the object itself`);
    }
  }

  /** Ends one waitUntil after the other while the first one is still open. */
  async #holdOpen(times: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.ctx.waitUntil(promise);
    for (let done = 0; done < times; done++) {
      this.ctx.waitUntil(Promise.resolve());
      if (done % AT_ONCE === 0) await this.ctx.storage.sync();
    }
    resolve();
  }

  async #ring(times: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#alarms = { left: times, done: resolve };
    await this.ctx.storage.setAlarm(Date.now() + 1);
    await promise;
  }
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const object = env.LOOP.get(env.LOOP.idFromName(searchParams.get('object') ?? ''));
    if (pathname === '/socket') return await object.fetch(request);
    await object.repeat(searchParams.get('operation') as Operation, Number(searchParams.get('times')));
    return new Response();
  },
};
