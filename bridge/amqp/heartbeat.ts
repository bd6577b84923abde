/**
 * A connection's pulse, as both sides agreed on it: sent at half the interval when nothing else was, and a client that
 * is silent for three intervals is gone, unless it is we who do not read it. One that takes nothing of what waits for
 * it is gone after as long, also where no heartbeat was agreed on.
 */
import { LIMIT } from '../../protocol/limits.ts';
import { FRAME } from './wire/frame-reader.ts';

const HEARTBEAT_FRAME = Buffer.from([FRAME.heartbeat, 0, 0, 0, 0, 0, 0, FRAME.end]);
/** Of a client that agreed on long intervals no more than this is borne. */
const MAX_STUCK_MS = 3 * LIMIT.amqpHeartbeatSeconds * 1_000;
/** A beat of the timer may come a little early. */
const EARLY_MS = 50;

export interface HeartbeatHost {
  /** Whether we are not reading the client at present. */
  isPaused(): boolean;
  /** For how long the client has taken nothing of what waits for it. */
  stuckMs(now: number): number;
  write(bytes: Buffer): void;
  gone(why: string): void;
  /** Each beat. */
  beat(now: number): void;
}

export class Heartbeat {
  readonly #host: HeartbeatHost;
  #intervalMs = 0;
  #lastReadMs = Date.now();
  #lastWriteMs = Date.now();
  #timer: NodeJS.Timeout | undefined;

  constructor(host: HeartbeatHost) {
    this.#host = host;
  }

  /** 0: none was agreed on. */
  start(seconds: number): void {
    this.#intervalMs = seconds * 1_000;
    this.#timer = setInterval(() => this.#beat(), Math.min(this.#patienceMs, MAX_STUCK_MS) / 6);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Something was read, or is read from here on: a client that we kept waiting was not silent. */
  noteRead(): void {
    this.#lastReadMs = Date.now();
  }

  noteWrite(): void {
    this.#lastWriteMs = Date.now();
  }

  get #patienceMs(): number {
    return this.#intervalMs === 0 ? LIMIT.amqpUndrainedMs : 3 * this.#intervalMs;
  }

  #beat(): void {
    const now = Date.now();
    this.#host.beat(now);
    if (this.#host.stuckMs(now) >= Math.min(this.#patienceMs, MAX_STUCK_MS))
      this.#host.gone('client does not read');
    else if (this.#intervalMs === 0) return;
    else if (!this.#host.isPaused() && now - this.#lastReadMs >= this.#patienceMs)
      this.#host.gone('missed heartbeats');
    else if (now - this.#lastWriteMs >= this.#intervalMs / 2 - EARLY_MS) this.#host.write(HEARTBEAT_FRAME);
  }
}
