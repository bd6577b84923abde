/**
 * The heartbeats of a connection, at the negotiated interval: sends one after half an interval without other
 * output, and closes a client that is silent for three intervals while the bridge reads from it. A client
 * that reads nothing although output waits for it is closed after the same time, or after `amqpUndrainedMs`
 * if no heartbeats were negotiated.
 */
import { LIMIT } from '../../protocol/limits.ts';
import { FRAME } from './wire/frame-reader.ts';

const HEARTBEAT_FRAME = Buffer.from([FRAME.heartbeat, 0, 0, 0, 0, 0, 0, FRAME.end]);
/** A client that does not read is closed after this time at the latest, even if it negotiated longer intervals. */
const MAX_STUCK_MS = 3 * LIMIT.amqpHeartbeatSeconds * 1_000;
/** The timer may fire this much early; a heartbeat is then due all the same. */
const EARLY_MS = 50;

export interface HeartbeatHost {
  /** Whether the bridge is not reading the client now. */
  isPaused(): boolean;
  /** Milliseconds since the client last took any of its waiting output; 0 if none waits. */
  stuckMs(now: number): number;
  write(bytes: Buffer): void;
  gone(why: string): void;
  /** Called each time the timer fires. */
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

  /** `seconds` is the negotiated interval; 0 means no heartbeats. */
  start(seconds: number): void {
    this.#intervalMs = seconds * 1_000;
    this.#timer = setInterval(() => this.#beat(), Math.min(this.#patienceMs, MAX_STUCK_MS) / 6);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /**
   * Called when bytes were read, and when the bridge begins to read again: the time in which it did not read
   * does not count as silence of the client.
   */
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
