/**
 * The plan history of a site: at the end of each turn that may have changed the plan, the state is compared with the last
 * entry, and an entry is added if it differs [C-13.3].
 */
import type { Turn } from '../../object/turn.ts';
import type { Commands } from '../command/commands.ts';
import { stricter } from '../command/kind/config.ts';
import type { Configuration } from '../config/configuration.ts';
import type { Devices } from '../device/devices.ts';
import type { Owner } from '../dispatch/owner.ts';
import type { DispatchRow, DispatchRows, OwnerName } from '../dispatch/rows.ts';
import { isOpen, LEVELS } from '../plan/stack.ts';
import type { PlanState } from '../plan/state.ts';
import type { Presence } from '../presence/presence.ts';
import type { ScheduleRows } from '../schedule/rows.ts';
import type { SiteView, ViewOf } from '../site-view.ts';
import {
  isSamePlace,
  LIMIT_NAMES,
  nextFacts,
  type PlanFacts,
  type PlantState,
  type Present,
  type StoredPlace,
} from './facts.ts';
import type { PlanChangeRows } from './rows.ts';

export interface PlanHistoryHost {
  rows: PlanChangeRows;
  state: PlanState;
  commands: Commands;
  dispatches: DispatchRows;
  schedules: ScheduleRows;
  configuration: Configuration;
  devices: Devices;
  presence: Presence;
  view: ViewOf;
  owner(name: OwnerName): Owner;
}

interface Answer {
  turn: Turn;
  row: DispatchRow;
  outcome: Extract<PlantState, 'ACKNOWLEDGED' | 'UNANSWERED'>;
}

export class PlanHistory {
  readonly rows: PlanChangeRows;
  readonly #host: PlanHistoryHost;
  #isTouched = false;
  /** The last answer to a dispatch that may carry the target. */
  #answer: Answer | undefined;
  #last: { facts: PlanFacts | undefined } | undefined;

  constructor(host: PlanHistoryHost) {
    this.#host = host;
    this.rows = host.rows;
  }

  /** Something that the history records may have changed. */
  touch(): void {
    this.#isTouched = true;
  }

  /** A dispatch that may carry the target was acknowledged, or failed. */
  answered(turn: Turn, row: DispatchRow, outcome: Answer['outcome']): void {
    this.#answer = { turn, row, outcome };
    this.touch();
  }

  /** Called at the end of every turn. */
  note(turn: Turn): void {
    if (!this.#isTouched) return;
    this.#isTouched = false;
    const isNoted = turn.step(() => this.#note(turn));
    if (!isNoted) this.touch();
  }

  #note(turn: Turn): void {
    this.#last ??= { facts: this.rows.newest()?.facts };
    const last = this.#last;
    const facts = nextFacts(
      last.facts,
      this.#present(turn, last.facts),
      this.#host.commands.endedIn(turn),
      turn.now,
    );
    if (!facts) return;
    this.rows.insert(turn, facts);
    turn.undo(() => {
      this.#last = last;
    });
    this.#last = { facts };
  }

  #present(turn: Turn, before: PlanFacts | undefined): Present {
    const { configuration, presence } = this.#host;
    const view = this.#host.view(turn);
    const gatewayId = view.gatewayId ?? null;
    const places = this.#places(turn, before?.places ?? []);
    const { config } = configuration.state;
    const limits = stricter(config.constraints, config.hardLimits);
    return {
      places,
      mode: config.operatingMode,
      plant: this.#plantState(turn, places[0], gatewayId, before),
      session: this.#session(view),
      gatewayId,
      isFallback: presence.isFallbackEngaged(turn.now),
      configVersion: configuration.version,
      limits: LIMIT_NAMES.map((name) => limits?.[name] ?? null),
      newestCommand: this.#host.commands.rows.log.newest(),
    };
  }

  /** What has a place in the plan now, highest first. */
  #places(turn: Turn, known: readonly StoredPlace[]): StoredPlace[] {
    const { state, schedules, configuration } = this.#host;
    const { now } = turn;
    const open = state.entries.all().filter((entry) => isOpen(entry, now));
    const entries = LEVELS.flatMap((level): StoredPlace[] => {
      const entry = open.findLast((one) => one.level === level);
      return entry ? [this.#entryPlace(level, entry.sequence, entry.endsAtMs, known)] : [];
    });
    const { emergency } = state;
    const emergencies = emergency
      ? [this.#commandPlace({ level: emergency.type, sequence: emergency.sequence }, known)]
      : [];
    const slot = schedules.activeSlot(now);
    const slots = slot
      ? [
          this.#commandPlace(
            {
              ...{ level: 'SLOT' as const, sequence: slot.sequence, slot: slot.slotIndex, mode: slot.mode },
              ...(slot.targetKw === null ? {} : { kw: slot.targetKw }),
              endsAtMs: slot.endsAtMs,
            },
            known,
          ),
        ]
      : [];
    const overrideEndsAtMs = configuration.state.overrideEndsAtMs(now);
    const mode: StoredPlace = {
      ...{ level: 'MODE', mode: configuration.state.operatingMode(now) },
      ...(overrideEndsAtMs === undefined ? {} : { endsAtMs: overrideEndsAtMs }),
    };
    const of = (level: string) => entries.filter((place) => place.level === level);
    return [...of('EMERGENCY'), ...emergencies, ...of('HIGH'), ...slots, ...of('NORMAL'), mode];
  }

  #entryPlace(
    level: StoredPlace['level'],
    sequence: number,
    endsAtMs: number | null,
    known: readonly StoredPlace[],
  ): StoredPlace {
    return this.#commandPlace({ level, sequence, ...(endsAtMs === null ? {} : { endsAtMs }) }, known);
  }

  /** The place with what its command says; the log row is read only for a new place. */
  #commandPlace(place: StoredPlace & { sequence: number }, known: readonly StoredPlace[]): StoredPlace {
    const before = known.find((one) => one.sequence === place.sequence);
    if (before && isSamePlace(before, place)) return { ...before, ...place };
    const command = this.#host.commands.find(place.sequence);
    if (!command) return place;
    const { includeConsumption } = JSON.parse(command.payload) as { includeConsumption?: boolean };
    return {
      ...place,
      ...{ id: command.id, partnerId: command.partner_id, recordedAtMs: command.created_at_ms },
      ...(command.target_value_kw === null ? {} : { kw: command.target_value_kw }),
      ...(includeConsumption === false ? { isWithoutConsumption: true as const } : {}),
    };
  }

  /** Whether the gateway has the target: as its open dispatch says, as it answers in this turn, or as before. */
  #plantState(
    turn: Turn,
    target: StoredPlace | undefined,
    gatewayId: string | null,
    before: PlanFacts | undefined,
  ): PlantState {
    const { dispatches, state } = this.#host;
    if (gatewayId === null || !target || !state.at(turn.now).isSent) return 'WAITING';
    const { sequence, level } = target;
    const isEntry = sequence !== undefined && state.entries.find(sequence) !== undefined;
    const own = sequence === undefined || level === 'SLOT' ? [] : dispatches.ofCommand(sequence);
    const all = isEntry ? own : [...own, ...dispatches.ofOwner('PLAN')];
    const states = all.filter((row) => row.device_id === gatewayId).map((row) => row.state);
    if (states.includes('WAITING')) return 'WAITING';
    if (states.includes('SENT')) return 'SENT';
    if (states.some((one) => one !== 'FAILED')) return 'ACKNOWLEDGED';
    const answer = this.#answer;
    if (answer?.turn === turn && this.#isOf(answer.row, target, gatewayId)) return answer.outcome;
    const last = before?.places[0];
    const isSame = before?.gatewayId === gatewayId && last !== undefined && isSamePlace(last, target);
    return isSame ? before.plant : 'WAITING';
  }

  #session({ gatewayId }: SiteView): Present['session'] {
    if (gatewayId === undefined) return 'NONE';
    return this.#host.devices.find(gatewayId)?.connection_id ? 'CONNECTED' : 'AWAY';
  }

  /** Whether the gateway's dispatch carries the target: that of its command, or one of the plan for it. */
  #isOf(row: DispatchRow, target: StoredPlace, gatewayId: string): boolean {
    if (row.device_id !== gatewayId) return false;
    const { command_sequence: sequence } = row;
    if (sequence !== null && sequence === target.sequence) return true;
    if (target.level === 'MODE' && this.#host.owner(row.owner).carries === 'MODE') return true;
    return sequence === null && !LEVELS.some((level) => level === target.level);
  }
}
