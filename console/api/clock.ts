/**
 * The platform's time: the clock of this computer may be wrong, and what it says must not reach a command. The header
 * `date` of each answer shows how far it is off.
 */
import { signal } from '@preact/signals';

/** The platform's clock minus that of this computer, ms. */
export const offsetMs = signal(0);
/** An offset below this may come from the time that an answer takes, and from the seconds of the header. */
const EXACT_MS = 2_000;

/**
 * Called with each answer. The header has whole seconds and was written before now, so the platform's time is never
 * taken for later than it is: a setpoint that begins now must not wait. Each answer may show that it is later.
 */
export function noteAnswer(answer: Response): void {
  const atMs = Date.parse(answer.headers.get('date') ?? '');
  if (Number.isNaN(atMs)) return;
  const [known, measured] = [offsetMs.peek(), atMs - Date.now()];
  if (Math.abs(measured - known) > EXACT_MS) offsetMs.value = Math.abs(measured) > EXACT_MS ? measured : 0;
  else if (known !== 0 && measured > known) offsetMs.value = measured;
}

/** The time by the platform's clock, epoch ms. */
export function platformNow(): number {
  return Date.now() + offsetMs.peek();
}
