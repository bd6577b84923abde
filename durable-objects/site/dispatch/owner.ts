/**
 * The owner of a dispatch: the noun whose rules decide what the dispatch's acks and its end mean. `Dispatches` sends,
 * repeats and expires every dispatch alike and asks the owner for everything else, so no rule here knows a command type.
 */
import type { Turn } from '../../object/turn.ts';
import type { Refusal } from '../refusal.ts';
import type { PlannedDispatch } from './dispatch.ts';
import type { DispatchRow, DispatchState } from './rows.ts';

/** Why a device no longer serves this site. */
export type Departure = 'DEVICE_GONE' | 'MOVED';

/**
 * The rules of an owner. Without the optional ones a dispatch is never held back, is sent as it was planned and is never
 * refused.
 */
export interface Owner {
  /** True: an emergency does not end a waiting dispatch, and a device that reconnects gets a sent one again. */
  readonly survivesEmergency: boolean;
  /** True: a dispatch that was sent to one device may be sent to the device that serves in its place. */
  readonly mayReachAnother: boolean;
  /** True: the limit on waiting commands does not end this one. */
  readonly isNeverDropped: boolean;
  /** What its dispatches carry of the plan: a mode, or any target (a setpoint, a slot, an emergency, the mode in force). */
  readonly carries?: 'MODE' | 'TARGET';
  /** Whether the dispatch must wait although its device is there. */
  isHeldBack?(turn: Turn): boolean;
  /** The dispatch is sent with this turn, for the first time or again. */
  sending?(turn: Turn, row: DispatchRow): void;
  /** A device's ack brings the dispatch to a higher state [C-3.9]. */
  acked(turn: Turn, row: DispatchRow, state: DispatchState): void;
  /** The dispatch has failed. `reason` null: the device answered FAILED. `refusal`: a recheck failed [C-7.6]. */
  failed(turn: Turn, row: DispatchRow, reason: string | null, refusal?: Refusal): void;
  /**
   * The dispatches that replace a waiting dispatch when it is sent now, perhaps to another device. Empty: it
   * is sent as it was planned.
   */
  replan?(turn: Turn, row: DispatchRow): PlannedDispatch[];
  /** Why a waiting dispatch may not stay, or, with `isSent`, may not be sent now [C-7.6]. */
  recheck?(turn: Turn, row: DispatchRow, isSent: boolean): Refusal | undefined;
  /** Whether a dispatch that was sent and not acknowledged may be sent again. */
  mayRepeat?(turn: Turn, row: DispatchRow): boolean;
  /** The device of an open dispatch no longer serves this site. */
  deviceGone(turn: Turn, row: DispatchRow, why: Departure): void;
}
