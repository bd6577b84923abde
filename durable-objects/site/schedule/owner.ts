/**
 * The owner of SCHEDULE. A command that sets a schedule ends with the schedule, a command that cancels one ends
 * with its dispatch [C-7.9].
 */
import { signableJson } from '../../../protocol/compact-json.ts';
import type { ScheduleCancel, ScheduleSet } from '../../../protocol/schedule.ts';
import type { Turn } from '../../object/turn.ts';
import { isScheduleSet, scheduleKind } from '../command/kind/schedule.ts';
import { CommandOwner, type CommandOwnerHost, type Recorded } from '../command/owner.ts';
import type { DispatchRow, DispatchState } from '../dispatch/rows.ts';
import type { Schedules } from './schedules.ts';

export interface ScheduleOwnerHost extends CommandOwnerHost {
  schedules: Schedules;
  /** Notes that a gateway is sent configuration or schedules. */
  configuration: { noteConfigured(turn: Turn, deviceId: string): void };
}

const SET = 'SCHEDULE_SET';

export class ScheduleOwner extends CommandOwner<'SCHEDULE'> {
  override readonly survivesEmergency = true;
  override readonly mayReachAnother = true;
  readonly #host: ScheduleOwnerHost;

  constructor(host: ScheduleOwnerHost) {
    super('SCHEDULE', scheduleKind, host);
    this.#host = host;
  }

  override recorded(turn: Turn, command: Recorded<ScheduleSet | ScheduleCancel>): void {
    const { schedules } = this.#host;
    const { payload } = command;
    if (isScheduleSet(payload)) {
      schedules.set(turn, payload, command);
      return;
    }
    const { partnerId, planned } = command;
    const found = schedules.rows.find(partnerId, payload.scheduleId);
    const scheduleId = found?.wireId ?? payload.scheduleId;
    const renamed = planned.map((one) => ({
      ...one,
      payloadText: signableJson({ ...JSON.parse(one.payloadText), scheduleId }),
    }));
    super.recorded(turn, { ...command, planned: renamed });
    schedules.advance(turn);
    const cancelled = schedules.rows.find(partnerId, payload.scheduleId);
    if (cancelled) schedules.cancel(turn, cancelled.sequence);
  }

  override forget(turn: Turn, sequence: number): void {
    this.#host.schedules.forget(turn, sequence);
  }

  /** While an emergency is active, a dispatch that was not sent yet waits [C-7.7]. */
  override isHeldBack(turn: Turn): boolean {
    return this.host.view(turn).emergency !== undefined;
  }

  override sending(turn: Turn, row: DispatchRow): void {
    if (row.action === SET) this.#host.configuration.noteConfigured(turn, row.device_id);
  }

  override acked(turn: Turn, row: DispatchRow, state: DispatchState): void {
    const { dispatches, schedules } = this.#host;
    if (row.action !== SET) {
      super.acked(turn, row, state);
      return;
    }
    if (state === 'FAILED') {
      dispatches.fail(turn, row, null);
      return;
    }
    if (state === 'COMPLETED') dispatches.rows.delete(turn, row.cmd_id);
    // The gateway may still answer FAILED, but the dispatch has no deadline for an answer.
    else if (row.due_at_ms !== null) dispatches.rows.update(turn, row, { state, due_at_ms: null });
    schedules.accept(turn, this.commandOf(row).sequence);
  }
}
