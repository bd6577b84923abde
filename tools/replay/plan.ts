/** Follows the plan of an export: from the commands it derives who holds the plant at each change [C-13.4]. */
import type { Lane, PlanFacts } from '../../durable-objects/site/explain/facts.ts';
import {
  isOpen,
  LEVELS,
  type PlanEntry,
  stackAt,
  type Target,
  targetOf,
} from '../../durable-objects/site/plan/stack.ts';
import type { ActiveEmergency } from '../../durable-objects/site/site-view.ts';
import { type Emergency, parseCommand, type SiteSetpoint, targetSignedKw } from '../../protocol/command.ts';
import type { ExportedCommand } from '../../protocol/export.ts';
import { parseInstant } from '../../protocol/ids.ts';
import { differs } from './judgement.ts';

/** What a later moment does to the plan. */
interface Event {
  atMs: number;
  apply(): void;
}

export class PlanReplay {
  #entries: PlanEntry[] = [];
  #emergency: ActiveEmergency | undefined;
  readonly #events: Event[] = [];
  readonly #kw = new Map<number, number>();
  readonly #commands = new Map<number, ExportedCommand>();
  /** Commands before this one are not in the file: what the plan has of them is taken from it. */
  readonly #firstSequence: number;

  constructor(firstSequence: number) {
    this.#firstSequence = firstSequence;
  }

  /** Takes a command; returns what its record says of its place in the plan and is not derived. */
  take(command: ExportedCommand): string[] {
    this.#commands.set(command.sequence, command);
    if (command.status === 'REJECTED') return [];
    this.#passTo(command.atMs, false);
    const parsed = parseCommand(command.commandType, command.payload);
    if (!parsed.ok) return [];
    switch (parsed.value.commandType) {
      case 'SITE_SETPOINT':
        return this.#takeSetpoint(command, parsed.value.payload);
      case 'EMERGENCY':
        this.#takeEmergency(command, parsed.value.payload);
        return [];
      case 'MODE_CHANGE':
        this.#takeMode(command);
        return [];
      default:
        return [];
    }
  }

  /** Compares an entry of the journal with what follows from the commands. */
  compare(atMs: number, facts: PlanFacts): string[] {
    this.#passTo(atMs, false);
    this.#adopt(facts.lanes, atMs);
    const before = this.#differences(atMs, facts);
    if (before.length === 0) return [];
    // An acknowledgement of the same millisecond may have come before the entry, or after it.
    this.#passTo(atMs, true);
    return this.#differences(atMs, facts);
  }

  #differences(atMs: number, facts: PlanFacts): string[] {
    const stack = stackAt(this.#entries, atMs);
    const slot = facts.lanes.find(({ level }) => level === 'SLOT');
    const place =
      slot?.sequence === undefined ? undefined : { sequence: slot.sequence, slotIndex: slot.slot ?? 0 };
    const mode = facts.lanes.find(({ level }) => level === 'MODE')?.mode ?? facts.mode;
    const target = targetOf(stack.top, this.#emergency, place, mode);
    const recorded = facts.lanes.filter(({ level }) => level !== 'MODE');
    return [
      ...differs('target', nameOfLane(facts.lanes[0]), nameOfTarget(target)),
      ...differs('plan', recorded.map(shortLane), this.#lanes(atMs, slot).map(shortLane)),
    ];
  }

  /** The reason that follows for a setpoint that another one replaced. */
  compareEnds(): Map<number, string[]> {
    const found = new Map<number, string[]>();
    for (const [sequence, by] of this.#replacedBy) {
      const command = this.#commands.get(sequence);
      const other = this.#commands.get(by);
      if (!command || !other || command.finishedAtMs === null || !isSuperseded(command)) continue;
      const different = differs('end', command.reason, `SUPERSEDED by ${other.id}`);
      if (different.length > 0) found.set(sequence, different);
    }
    return found;
  }

  readonly #replacedBy = new Map<number, number>();

  #takeSetpoint(command: ExportedCommand, payload: SiteSetpoint): string[] {
    const { sequence, atMs, finishedAtMs, status } = command;
    const entry: PlanEntry = {
      sequence,
      level: payload.priority,
      startsAtMs: Math.max(atMs, parseInstant(payload.validFrom) ?? 0),
      endsAtMs: payload.validUntil === undefined ? null : (parseInstant(payload.validUntil) ?? null),
    };
    this.#entries.push(entry);
    this.#kw.set(sequence, targetSignedKw(payload));
    // A device that fails, a limit that changes or a full queue removes the setpoint: that is an input here.
    const isRemoved = status === 'FAILED' && finishedAtMs !== null && !isSuperseded(command);
    if (isRemoved) this.#at(finishedAtMs, () => this.#remove(sequence));
    const recorded = (command.decision?.facts as { level?: string } | undefined)?.level ?? null;
    return differs('level', recorded, entry.level);
  }

  #takeEmergency({ sequence }: ExportedCommand, { type }: Emergency): void {
    this.#entries = [];
    this.#emergency = { sequence, type };
  }

  /** A mode ends an older emergency when the plant acknowledges it. */
  #takeMode({ sequence, startedAtMs }: ExportedCommand): void {
    if (startedAtMs === null) return;
    this.#at(startedAtMs, () => {
      if (this.#emergency && this.#emergency.sequence < sequence) this.#emergency = undefined;
    });
  }

  #at(atMs: number, apply: () => void): void {
    this.#events.push({ atMs, apply });
    this.#events.sort((one, other) => one.atMs - other.atMs);
  }

  /** `isThrough`: what happens at this moment, too. */
  #passTo(atMs: number, isThrough: boolean): void {
    for (
      let next = this.#events[0];
      next && (next.atMs < atMs || (isThrough && next.atMs === atMs));
      next = this.#events[0]
    ) {
      this.#settle(next.atMs);
      this.#events.shift();
      next.apply();
    }
    this.#settle(atMs);
  }

  /** Removes what is over or was replaced by then. */
  #settle(atMs: number): void {
    const { over, replaced } = stackAt(this.#entries, atMs);
    for (const { entry, by } of replaced) {
      this.#replacedBy.set(entry.sequence, by);
      this.#remove(entry.sequence);
    }
    for (const { sequence } of over) this.#remove(sequence);
  }

  #remove(sequence: number): void {
    this.#entries = this.#entries.filter((entry) => entry.sequence !== sequence);
  }

  /** Takes over what began before the file. */
  #adopt(lanes: readonly Lane[], atMs: number): void {
    for (const { level, sequence, endsAtMs, kw } of lanes) {
      if (sequence === undefined || sequence >= this.#firstSequence) continue;
      if (level === 'STOP' || level === 'HOLD') this.#emergency ??= { sequence, type: level };
      const own = LEVELS.find((one) => one === level);
      if (!own || this.#entries.some((entry) => entry.sequence === sequence)) continue;
      this.#entries.unshift({ sequence, level: own, startsAtMs: atMs, endsAtMs: endsAtMs ?? null });
      if (kw !== undefined) this.#kw.set(sequence, kw);
    }
    const isGone = (sequence: number) =>
      sequence < this.#firstSequence && !lanes.some((lane) => lane.sequence === sequence);
    this.#entries = this.#entries.filter(({ sequence }) => !isGone(sequence));
    if (this.#emergency && isGone(this.#emergency.sequence)) this.#emergency = undefined;
  }

  #lanes(atMs: number, slot: Lane | undefined): Lane[] {
    const open = this.#entries.filter((entry) => isOpen(entry, atMs));
    const of = (level: (typeof LEVELS)[number]): Lane[] => {
      const entry = open.findLast((one) => one.level === level);
      if (!entry) return [];
      const kw = this.#kw.get(entry.sequence);
      return [{ level, sequence: entry.sequence, ...(kw === undefined ? {} : { kw }) }];
    };
    const held: Lane[] = this.#emergency
      ? [{ level: this.#emergency.type, sequence: this.#emergency.sequence }]
      : [];
    return [...of('EMERGENCY'), ...held, ...of('HIGH'), ...(slot ? [slot] : []), ...of('NORMAL')];
  }
}

function nameOfLane(lane: Lane | undefined): string {
  if (!lane || lane.level === 'MODE') return `mode ${lane?.mode}`;
  if (lane.level === 'SLOT') return `slot ${lane.slot} of ${lane.sequence}`;
  return lane.level === 'STOP' || lane.level === 'HOLD'
    ? `emergency ${lane.sequence}`
    : `setpoint ${lane.sequence}`;
}

function isSuperseded({ reason }: ExportedCommand): boolean {
  return reason?.startsWith('SUPERSEDED') === true || reason === 'EMERGENCY';
}

function nameOfTarget(target: Target): string {
  switch (target.by) {
    case 'entry':
      return `setpoint ${target.sequence}`;
    case 'emergency':
      return `emergency ${target.sequence}`;
    case 'slot':
      return `slot ${target.slotIndex} of ${target.sequence}`;
    case 'mode':
      return `mode ${target.mode}`;
  }
}

function shortLane({ level, sequence, kw, slot }: Lane): string {
  return [
    level,
    sequence,
    slot === undefined ? undefined : `slot ${slot}`,
    kw === undefined ? undefined : `${kw} kW`,
  ]
    .filter((part) => part !== undefined)
    .join(' ');
}
