/** Follows the plan of an export: from the commands it derives who holds the plant at each change [C-13.4]. */
import type { PlanFacts, StoredPlace } from '../../durable-objects/site/explain/facts.ts';
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
import type { CommandType } from '../../protocol/routing-keys.ts';
import { differs } from './judgement.ts';

const MODE_TYPES: ReadonlySet<CommandType> = new Set(['MODE_CHANGE']);

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
      default:
        return [];
    }
  }

  /** Compares an entry of the journal with what follows from the commands. */
  compare(atMs: number, facts: PlanFacts): string[] {
    this.#passTo(atMs, false);
    this.#adopt(facts.places, atMs);
    const before = this.#differences(atMs, facts);
    if (before.length === 0) return [];
    // An acknowledgement of the same millisecond may have come before the entry, or after it.
    this.#passTo(atMs, true);
    return this.#differences(atMs, facts);
  }

  #differences(atMs: number, facts: PlanFacts): string[] {
    const stack = stackAt(this.#entries, atMs);
    const slot = facts.places.find(({ level }) => level === 'SLOT');
    const slotPlace =
      slot?.sequence === undefined ? undefined : { sequence: slot.sequence, slotIndex: slot.slot ?? 0 };
    const mode = facts.places.find(({ level }) => level === 'MODE')?.mode ?? facts.mode;
    const target = targetOf(stack.top, this.#emergency, slotPlace, mode);
    const recorded = facts.places.filter(({ level }) => level !== 'MODE');
    return [
      ...differs('target', nameOfPlace(facts.places[0]), nameOfTarget(target)),
      ...differs('plan', recorded.map(shortPlace), this.#places(atMs, slot).map(shortPlace)),
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

  /** Takes over what began before the file, and what only the plant decides. */
  #adopt(places: readonly StoredPlace[], atMs: number): void {
    this.#adoptRelease(places, atMs);
    this.#adoptRemovals(places, atMs);
    for (const { level, sequence, endsAtMs, kw } of places) {
      if (sequence === undefined || sequence >= this.#firstSequence) continue;
      if (level === 'STOP' || level === 'HOLD') this.#emergency ??= { sequence, type: level };
      const own = LEVELS.find((one) => one === level);
      if (!own || this.#entries.some((entry) => entry.sequence === sequence)) continue;
      this.#entries.unshift({ sequence, level: own, startsAtMs: atMs, endsAtMs: endsAtMs ?? null });
      if (kw !== undefined) this.#kw.set(sequence, kw);
    }
    const isGone = (sequence: number) =>
      sequence < this.#firstSequence && !places.some((place) => place.sequence === sequence);
    this.#entries = this.#entries.filter(({ sequence }) => !isGone(sequence));
    if (this.#emergency && isGone(this.#emergency.sequence)) this.#emergency = undefined;
  }

  /** The gateway's acknowledgement of a newer mode ends an emergency. Other devices may have acknowledged it earlier. */
  #adoptRelease(places: readonly StoredPlace[], atMs: number): void {
    const held = this.#emergency;
    if (!held || places.some(({ sequence }) => sequence === held.sequence)) return;
    const isReleased = [...this.#commands.values()].some(
      ({ commandType, sequence, startedAtMs }) =>
        MODE_TYPES.has(commandType) &&
        sequence > held.sequence &&
        startedAtMs !== null &&
        startedAtMs <= atMs,
    );
    if (isReleased) this.#emergency = undefined;
  }

  /** A setpoint that had its verdict may still leave the plan: its device fails, or a limit changes. */
  #adoptRemovals(places: readonly StoredPlace[], atMs: number): void {
    const isRemoved = (entry: PlanEntry) => {
      const { status, finishedAtMs } = this.#commands.get(entry.sequence) ?? {};
      const hasVerdict = status === 'COMPLETED' || status === 'DEVIATED';
      const isShown = places.some(
        ({ level, sequence }) => sequence === entry.sequence || level === entry.level,
      );
      return hasVerdict && (finishedAtMs ?? atMs) < atMs && isOpen(entry, atMs) && !isShown;
    };
    this.#entries = this.#entries.filter((entry) => !isRemoved(entry));
  }

  #places(atMs: number, slot: StoredPlace | undefined): StoredPlace[] {
    const open = this.#entries.filter((entry) => isOpen(entry, atMs));
    const of = (level: (typeof LEVELS)[number]): StoredPlace[] => {
      const entry = open.findLast((one) => one.level === level);
      if (!entry) return [];
      const kw = this.#kw.get(entry.sequence);
      return [{ level, sequence: entry.sequence, ...(kw === undefined ? {} : { kw }) }];
    };
    const held: StoredPlace[] = this.#emergency
      ? [{ level: this.#emergency.type, sequence: this.#emergency.sequence }]
      : [];
    return [...of('EMERGENCY'), ...held, ...of('HIGH'), ...(slot ? [slot] : []), ...of('NORMAL')];
  }
}

function nameOfPlace(place: StoredPlace | undefined): string {
  if (!place || place.level === 'MODE') return `mode ${place?.mode}`;
  if (place.level === 'SLOT') return `slot ${place.slot} of ${place.sequence}`;
  return place.level === 'STOP' || place.level === 'HOLD'
    ? `emergency ${place.sequence}`
    : `setpoint ${place.sequence}`;
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

function shortPlace({ level, sequence, kw, slot }: StoredPlace): string {
  return [
    level,
    sequence,
    slot === undefined ? undefined : `slot ${slot}`,
    kw === undefined ? undefined : `${kw} kW`,
  ]
    .filter((part) => part !== undefined)
    .join(' ');
}
