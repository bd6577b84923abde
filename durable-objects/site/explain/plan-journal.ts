/**
 * The plan journal of a site: at the end of each turn that may have changed the plan, the state is compared with the last
 * entry, and an entry is added if it differs [C-13.3].
 */
import { constraints } from '../../../protocol/site-config.ts';
import type { Turn } from '../../object/turn.ts';
import type { Commands } from '../command/commands.ts';
import { stricter } from '../command/kind/config.ts';
import type { Configuration } from '../config/configuration.ts';
import type { Devices } from '../device/devices.ts';
import type { DispatchRows } from '../dispatch/rows.ts';
import { isOpen, LEVELS } from '../plan/stack.ts';
import type { PlanState } from '../plan/state.ts';
import type { Presence } from '../presence/presence.ts';
import type { ScheduleRows } from '../schedule/rows.ts';
import type { SiteView, ViewOf } from '../site-view.ts';
import { isSameLane, type Lane, nextFacts, type PlanFacts, type PlantState, type Present } from './facts.ts';
import type { PlanChangeRows } from './rows.ts';

const LIMIT_NAMES = constraints.keyof().options;

export interface PlanJournalHost {
  rows: PlanChangeRows;
  state: PlanState;
  commands: Commands;
  dispatches: DispatchRows;
  schedules: ScheduleRows;
  configuration: Configuration;
  devices: Devices;
  presence: Presence;
  view: ViewOf;
}

export class PlanJournal {
  readonly rows: PlanChangeRows;
  readonly #host: PlanJournalHost;
  #isTouched = false;
  /** A command of the plan itself got no answer in this turn. */
  #unansweredIn: Turn | undefined;
  #last: { facts: PlanFacts | undefined } | undefined;

  constructor(host: PlanJournalHost) {
    this.#host = host;
    this.rows = host.rows;
  }

  /** Something that the journal records may have changed. */
  touch(): void {
    this.#isTouched = true;
  }

  /** A slot, a mode or an emergency that the plan has sent got no answer. */
  unanswered(turn: Turn): void {
    this.#unansweredIn = turn;
    this.touch();
  }

  /** Called at the end of every turn. */
  note(turn: Turn): void {
    if (!this.#isTouched) return;
    this.#isTouched = false;
    turn.step(() => this.#note(turn));
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
    const lanes = this.#lanes(turn, before?.lanes ?? []);
    const { config } = configuration.state;
    const limits = stricter(config.constraints, config.hardLimits);
    return {
      lanes,
      mode: config.operatingMode,
      plant: this.#plantState(turn, lanes[0], before),
      session: this.#session(view),
      isFallback: presence.isFallbackEngaged(turn.now),
      configVersion: configuration.version,
      limits: LIMIT_NAMES.map((name) => limits?.[name] ?? null),
      newestCommand: this.#host.commands.rows.newest(),
    };
  }

  /** What has a place in the plan now, highest first. */
  #lanes(turn: Turn, known: readonly Lane[]): Lane[] {
    const { state, schedules, configuration } = this.#host;
    const { now } = turn;
    const open = state.entries.all().filter((entry) => isOpen(entry, now));
    const entries = LEVELS.flatMap((level): Lane[] => {
      const entry = open.findLast((one) => one.level === level);
      return entry ? [this.#entryLane(level, entry.sequence, entry.endsAtMs, known)] : [];
    });
    const { emergency } = state;
    const emergencies = emergency
      ? [this.#commandLane({ level: emergency.type, sequence: emergency.sequence }, known)]
      : [];
    const slot = schedules.activeSlot(now);
    const slots = slot
      ? [
          this.#commandLane(
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
    const mode: Lane = {
      ...{ level: 'MODE', mode: configuration.state.operatingMode(now) },
      ...(overrideEndsAtMs === undefined ? {} : { endsAtMs: overrideEndsAtMs }),
    };
    const of = (level: string) => entries.filter((lane) => lane.level === level);
    return [...of('EMERGENCY'), ...emergencies, ...of('HIGH'), ...slots, ...of('NORMAL'), mode];
  }

  #entryLane(level: Lane['level'], sequence: number, endsAtMs: number | null, known: readonly Lane[]): Lane {
    return this.#commandLane({ level, sequence, ...(endsAtMs === null ? {} : { endsAtMs }) }, known);
  }

  /** The lane with what its command says; the log row is read only for a new lane. */
  #commandLane(lane: Lane & { sequence: number }, known: readonly Lane[]): Lane {
    const before = known.find((one) => one.sequence === lane.sequence);
    if (before && isSameLane(before, lane)) return { ...before, ...lane };
    const command = this.#host.commands.find(lane.sequence);
    if (!command) return lane;
    const { includeConsumption } = JSON.parse(command.payload) as { includeConsumption?: boolean };
    return {
      ...lane,
      ...{ id: command.id, keyId: command.key_id, recordedAtMs: command.created_at_ms },
      ...(command.target_value_kw === null ? {} : { kw: command.target_value_kw }),
      ...(includeConsumption === false ? { isWithoutConsumption: true as const } : {}),
    };
  }

  /** Whether the plant has the target, as its open dispatches say. */
  #plantState(turn: Turn, target: Lane | undefined, before: PlanFacts | undefined): PlantState {
    const { dispatches, state } = this.#host;
    if (!state.at(turn.now).isSent) return 'WAITING';
    const isEntry = target?.sequence !== undefined && state.entries.find(target.sequence) !== undefined;
    const own =
      target?.sequence === undefined || target.level === 'SLOT' ? [] : dispatches.ofCommand(target.sequence);
    const open = isEntry ? own : [...own, ...dispatches.ofOwner('PLAN')];
    if (open.some((row) => row.state === 'WAITING')) return 'WAITING';
    if (open.some((row) => row.state === 'SENT')) return 'SENT';
    if (this.#unansweredIn === turn) return 'UNANSWERED';
    const isSame = before?.lanes[0] && target && isSameLane(before.lanes[0], target);
    return isSame && before.plant === 'UNANSWERED' && open.length === 0 ? 'UNANSWERED' : 'ACKNOWLEDGED';
  }

  #session({ gatewayId }: SiteView): Present['session'] {
    if (gatewayId === undefined) return 'NONE';
    return this.#host.devices.find(gatewayId)?.connection_id ? 'CONNECTED' : 'AWAY';
  }
}
