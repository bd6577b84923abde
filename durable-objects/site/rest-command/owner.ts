/** The owner of REST commands: the acks of the one device that a command names end it [C-3.4]. */
import type { Turn } from '../../object/turn.ts';
import { DEVICE_FAILED } from '../dispatch/dispatch.ts';
import type { Dispatches } from '../dispatch/dispatches.ts';
import type { Departure, Owner } from '../dispatch/owner.ts';
import type { PlannedDispatch } from '../dispatch/planned.ts';
import type { DispatchRow, DispatchState } from '../dispatch/rows.ts';
import type { Refusal } from '../refusal.ts';
import type { RestCommands } from './rest-commands.ts';

export class RestCommandOwner implements Owner {
  readonly survivesEmergency = true;
  readonly mayReachAnother = false;
  readonly isNeverDropped = true;
  readonly #dispatches: Dispatches;
  readonly #commands: RestCommands;

  constructor(dispatches: Dispatches, commands: RestCommands) {
    this.#dispatches = dispatches;
    this.#commands = commands;
  }

  isHeldBack(): boolean {
    return false;
  }

  sending(): void {}

  acked(turn: Turn, row: DispatchRow, state: DispatchState): void {
    if (state === 'FAILED') this.failed(turn, row, null);
    else if (state === 'COMPLETED') this.#commands.end(turn, row.cmd_id, state, null);
    else this.#dispatches.holdForResult(turn, row, state);
  }

  failed(turn: Turn, row: DispatchRow, reason: string | null): void {
    this.#commands.end(turn, row.cmd_id, 'FAILED', reason ?? DEVICE_FAILED);
  }

  replan(): PlannedDispatch[] {
    return [];
  }

  recheck(): Refusal | undefined {
    return undefined;
  }

  deviceGone(turn: Turn, row: DispatchRow, why: Departure): void {
    this.failed(turn, row, why);
  }
}
