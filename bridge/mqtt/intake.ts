/**
 * How much a device may have sent that the Site has not answered. Over it the bridge stops reading from the client, so
 * that neither a slow Site nor a fast device fills the memory of the bridge.
 */
import { LIMIT } from '../../protocol/limits.ts';

/** Why the bridge does not read from a client: its rate is exceeded, or too much is unanswered. */
type Cause = 'rate' | 'bytes';

export class Intake {
  readonly #hold: (isHeld: boolean) => void;
  readonly #causes = new Set<Cause>();
  #bytes = 0;

  /** `hold` is called when reading must stop, and when it may go on. */
  constructor(hold: (isHeld: boolean) => void) {
    this.#hold = hold;
  }

  take(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > LIMIT.mqttUnansweredBytes) this.holdFor('bytes', true);
  }

  /** Reading goes on when half of the limit is free. */
  release(bytes: number): void {
    this.#bytes -= bytes;
    if (this.#bytes <= LIMIT.mqttUnansweredBytes / 2) this.holdFor('bytes', false);
  }

  holdFor(cause: Cause, isHeld: boolean): void {
    if (this.#causes.has(cause) === isHeld) return;
    const wasHeld = this.#causes.size > 0;
    if (isHeld) this.#causes.add(cause);
    else this.#causes.delete(cause);
    const nowHeld = this.#causes.size > 0;
    if (nowHeld !== wasHeld) this.#hold(nowHeld);
  }
}
