/**
 * A connection's pulse, as both sides agreed on it: sent at half the interval when nothing else was, and a client that
 * is silent for three intervals is gone, unless it is we who do not read it.
 */
import { FRAME } from './wire/frame-reader.ts';

const HEARTBEAT_FRAME = Buffer.from([FRAME.heartbeat, 0, 0, 0, 0, 0, 0, FRAME.end]);
/** A beat of the timer may come a little early. */
const EARLY_MS = 50;

export interface HeartbeatHost {
  /** Whether we are not reading the client at present. */
  isPaused(): boolean;
  write(bytes: Buffer): void;
  missed(): void;
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
    if (seconds === 0) return;
    this.#intervalMs = seconds * 1_000;
    this.#timer = setInterval(() => this.#beat(), this.#intervalMs / 2);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  noteRead(): void {
    this.#lastReadMs = Date.now();
  }

  noteWrite(): void {
    this.#lastWriteMs = Date.now();
  }

  #beat(): void {
    const now = Date.now();
    if (!this.#host.isPaused() && now - this.#lastReadMs >= 3 * this.#intervalMs) this.#host.missed();
    else if (now - this.#lastWriteMs >= this.#intervalMs / 2 - EARLY_MS) this.#host.write(HEARTBEAT_FRAME);
  }
}
