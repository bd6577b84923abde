/**
 * The product's Worker with meters on its objects: rows written, calls, and when something prevents
 * hibernation. An object may hibernate when no handler runs, no promise of waitUntil is pending and no timer
 * is set; the runtime then waits 10 s and destroys it, including its socket objects, until the next call.
 * JavaScript cannot see whether anything else holds the object; `hibernated` shows it: after more than 10 s
 * of idle time the object must have been constructed again.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Env } from '../../../durable-objects/env.ts';
import { Site as ProductSite } from '../../../durable-objects/site.ts';
import { Vhost as ProductVhost } from '../../../durable-objects/vhost.ts';
import worker from '../../../worker/index.ts';
import { METERS_PATH, type MeterReport, type ObjectKind } from '../meter-report.ts';

export { Metrics } from '../../../durable-objects/metrics.ts';
export { RequestCounter } from '../../../durable-objects/request-counter.ts';
export { Watches } from '../../../durable-objects/watches.ts';

/** The runtime destroys an idle object after 10 s; this adds a safety margin. */
const HIBERNATES_AFTER_MS = 10_250;
const EVENTS = ['fetch', 'alarm', 'webSocketMessage', 'webSocketClose', 'webSocketError'];

/** The meter of one object, over all its constructions. */
class Meter {
  readonly report: MeterReport = {
    wakes: 0,
    busyMs: 0,
    handlerMs: 0,
    calls: {},
    rows: {},
    alarmsSet: 0,
    longIdles: 0,
    hibernated: 0,
    heldBy: [],
  };
  #life = 0;
  #held = 0;
  readonly #holders = new Map<string, number>();
  #handlers = 0;
  #busySinceMs = 0;
  #handlingSinceMs = 0;
  #idleSinceMs = 0;
  #wasNew = false;

  /** Called by the constructor, which runs before the call that woke the object. */
  wake(): void {
    this.#life += 1;
    this.report.wakes += 1;
    this.#wasNew = true;
    // The work of the previous instance ended with it, so nothing holds the object any more.
    if (this.#held > 0) this.#rest();
    this.#held = 0;
    this.#holders.clear();
    this.#handlers = 0;
  }

  /** Marks the object as held until the returned function is called; further calls of it do nothing. */
  hold(by: string): () => void {
    const life = this.#life;
    if (this.#held === 0) this.#rouse();
    this.#held += 1;
    this.#note(by, 1);
    let isOpen = true;
    return () => {
      if (!isOpen || life !== this.#life) return;
      isOpen = false;
      this.#held -= 1;
      this.#note(by, -1);
      if (this.#held === 0) this.#rest();
    };
  }

  /** Counts a call from outside; the returned function ends it. */
  enter(name: string): () => void {
    const { report } = this;
    report.calls[name] = (report.calls[name] ?? 0) + 1;
    if (this.#handlers === 0) this.#handlingSinceMs = Date.now();
    this.#handlers += 1;
    const life = this.#life;
    const release = this.hold(name);
    return () => {
      if (life === this.#life) {
        this.#handlers -= 1;
        if (this.#handlers === 0) report.handlerMs += Date.now() - this.#handlingSinceMs;
      }
      release();
    };
  }

  wrote(call: string, rows: number): void {
    this.report.rows[call] = (this.report.rows[call] ?? 0) + rows;
  }

  read(): MeterReport {
    const isBusy = this.#held > 0;
    const openMs = isBusy ? Date.now() - this.#busySinceMs : 0;
    return { ...this.report, busyMs: this.report.busyMs + openMs, heldBy: [...this.#holders.keys()] };
  }

  #note(by: string, change: number): void {
    const count = (this.#holders.get(by) ?? 0) + change;
    if (count > 0) this.#holders.set(by, count);
    else this.#holders.delete(by);
  }

  #rouse(): void {
    const now = Date.now();
    this.#busySinceMs = now;
    if (this.#idleSinceMs > 0 && now - this.#idleSinceMs > HIBERNATES_AFTER_MS) {
      this.report.longIdles += 1;
      if (this.#wasNew) this.report.hibernated += 1;
    }
    this.#wasNew = false;
  }

  #rest(): void {
    this.report.busyMs += Date.now() - this.#busySinceMs;
    this.#idleSinceMs = Date.now();
  }
}

const meters: Record<ObjectKind, Map<string, Meter>> = { Site: new Map(), Vhost: new Map() };
/** The meter and the call of the code that runs now, also after its awaits. */
const running = new AsyncLocalStorage<{ meter: Meter; call: string }>();

export class Site extends ProductSite {
  constructor(ctx: DurableObjectState, env: Env) {
    const meter = meterOf('Site', ctx);
    super(metered(ctx, meter), env);
    meterCalls(this, ProductSite.prototype, meter);
  }
}

export class Vhost extends ProductVhost {
  constructor(ctx: DurableObjectState, env: Env) {
    const meter = meterOf('Vhost', ctx);
    super(metered(ctx, meter), env);
    meterCalls(this, ProductVhost.prototype, meter);
  }
}

export default {
  fetch(request: Request, env: Env, ctx: ExecutionContext): Response | Promise<Response> {
    if (new URL(request.url).pathname !== METERS_PATH) return worker.fetch(request, env, ctx);
    const read = (kind: ObjectKind) => [...meters[kind].values()].map((meter) => meter.read());
    return Response.json({ Site: read('Site'), Vhost: read('Vhost') });
  },
};

function meterOf(kind: ObjectKind, ctx: DurableObjectState): Meter {
  const id = ctx.id.toString();
  const meter = meters[kind].get(id) ?? new Meter();
  meters[kind].set(id, meter);
  meter.wake();
  return meter;
}

/** Wraps the state in place so that waitUntil, rows and alarms are counted. */
function metered(ctx: DurableObjectState, meter: Meter): DurableObjectState {
  const waitUntil = ctx.waitUntil.bind(ctx);
  ctx.waitUntil = (work) => {
    const release = meter.hold('waitUntil');
    waitUntil(Promise.resolve(work).finally(release));
  };
  const block = ctx.blockConcurrencyWhile.bind(ctx);
  ctx.blockConcurrencyWhile = async (work) => {
    const release = meter.hold('waking');
    return await block(work).finally(release);
  };
  const { storage } = ctx;
  const setAlarm = storage.setAlarm.bind(storage);
  storage.setAlarm = (...given: Parameters<typeof setAlarm>) => {
    meter.report.alarmsSet += 1;
    const release = meter.hold('setAlarm');
    return setAlarm(...given).finally(release);
  };
  const { sql } = storage;
  const { exec: execOfRuntime } = sql;
  const exec = execOfRuntime.bind(sql);
  Object.defineProperty(sql, 'exec', {
    value: (query: string, ...bindings: SqlStorageValue[]) => {
      const cursor = exec(query, ...bindings);
      const call = running.getStore()?.call ?? 'waking';
      // The cursor has the number of written rows only after it was read, which happens before the next microtask.
      if (!/^\s*SELECT/i.test(query)) queueMicrotask(() => meter.wrote(call, cursor.rowsWritten));
      return cursor;
    },
  });
  return ctx;
}

type Method = (...given: unknown[]) => unknown;

/** Wraps every method that the runtime or another object can call. */
function meterCalls(object: object, prototype: object, meter: Meter): void {
  for (const name of Object.getOwnPropertyNames(prototype)) {
    const method: unknown = Reflect.get(prototype, name);
    if (name === 'constructor' || typeof method !== 'function') continue;
    const call = EVENTS.includes(name) ? name : `rpc ${name}`;
    const wrapped = (...given: unknown[]): unknown => {
      const leave = meter.enter(call);
      return running.run({ meter, call }, () => finish(() => (method as Method).apply(object, given), leave));
    };
    Object.defineProperty(Object.getPrototypeOf(object), name, {
      value: dispatcher(name),
      configurable: true,
    });
    own(object).set(name, wrapped);
  }
}

/**
 * RPC finds only methods of the class. Therefore the class gets a method that calls the wrapped method of the
 * object.
 */
const wrappedOf = new WeakMap<object, Map<string, Method>>();

function own(object: object): Map<string, Method> {
  const known = wrappedOf.get(object) ?? new Map<string, Method>();
  wrappedOf.set(object, known);
  return known;
}

function dispatcher(name: string): Method {
  return function call(this: object, ...given: unknown[]) {
    return wrappedOf.get(this)?.get(name)?.(...given);
  };
}

/** Calls `done` when the work, or the promise that it returns, has ended. */
function finish(work: () => unknown, done: () => void): unknown {
  let value: unknown;
  try {
    value = work();
  } catch (error) {
    done();
    throw error;
  }
  if (!(value instanceof Promise)) {
    done();
    return value;
  }
  return value.finally(done);
}

/** A timer holds the object that set it until it has run or is cleared. */
const [startTimer, stopTimer] = [globalThis.setTimeout, globalThis.clearTimeout];
const timers = new Map<unknown, () => void>();

globalThis.setTimeout = ((callback: (...given: unknown[]) => void, ms?: number, ...given: unknown[]) => {
  const release = running.getStore()?.meter.hold('timer');
  const id = startTimer(() => {
    timers.delete(id);
    try {
      callback(...given);
    } finally {
      release?.();
    }
  }, ms);
  if (release) timers.set(id, release);
  return id;
}) as typeof globalThis.setTimeout;

globalThis.clearTimeout = ((id: number | null | undefined) => {
  timers.get(id)?.();
  timers.delete(id);
  stopTimer(id ?? null);
}) as typeof globalThis.clearTimeout;
