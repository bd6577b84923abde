/**
 * A simple model of a site's plan: which setpoints are open, which ended and why, and what the plant should do now.
 * It shares no code with the product. From the site it gets only what it cannot predict: which commands their device
 * did not answer or rejected [C-7.7].
 */
export type Priority = 'EMERGENCY' | 'HIGH' | 'NORMAL';

/** What a plant does with the commands that it received. */
export type Doing =
  | { by: 'entry'; messageId: string }
  | { by: 'slot'; messageId: string; slotIndex: number }
  | { by: 'emergency' }
  | { by: 'mode'; mode: string };

/** A slot of a schedule, possibly shortened. `kw` is null for a slot that has only a mode. */
interface Slot {
  slotIndex: number;
  kw: number | null;
  fromMs: number;
  untilMs: number;
}

interface Schedule {
  messageId: string;
  order: number;
  fromMs: number;
  untilMs: number;
  slots: Slot[];
  isTaken: boolean;
  ended?: string;
}

interface Setpoint {
  messageId: string;
  order: number;
  priority: Priority;
  kw: number;
  fromMs: number;
  untilMs: number;
  /** Why it ended; undefined while it is active or has not begun. */
  ended?: string;
}

const MINUTE = 60_000;
const HEIGHT: Record<Priority, number> = { EMERGENCY: 3, HIGH: 2, NORMAL: 1 };

export class PlanModel {
  readonly #setpoints: Setpoint[] = [];
  readonly #schedules: Schedule[] = [];
  #limitKw = Number.POSITIVE_INFINITY;
  #emergencyOrder: number | undefined;
  #mode = 'STANDARD';
  #override: { mode: string; untilMs: number } | undefined;
  #nowMs: number;
  #order = 0;

  constructor(nowMs: number) {
    this.#nowMs = nowMs;
  }

  /** Lets time pass and handles each start and end in order. A site that slept evaluates only the last one. */
  passTo(nowMs: number, isAwake = true): void {
    const slots = this.#schedules.flatMap((schedule) => [schedule, ...schedule.slots]);
    const moments = [...this.#setpoints, ...slots].flatMap(({ fromMs, untilMs }) => [fromMs, untilMs]);
    for (const atMs of [...new Set(moments)].sort((left, right) => left - right)) {
      if (atMs <= this.#nowMs || atMs > nowMs) continue;
      this.#nowMs = atMs;
      this.#resolve(atMs);
      if (isAwake) this.skipUnfit();
    }
    this.#nowMs = nowMs;
    this.#resolve(nowMs);
  }

  /** Returns the number of the recorded command. */
  record(): number {
    this.#order += 1;
    return this.#order;
  }

  addSetpoint(
    messageId: string,
    priority: Priority,
    kw: number,
    fromMs: number,
    untilMs: number | null,
  ): void {
    this.#setpoints.push({
      messageId,
      order: this.record(),
      priority,
      kw,
      fromMs: Math.max(fromMs, this.#nowMs),
      untilMs: untilMs ?? Number.POSITIVE_INFINITY,
    });
    this.#look();
  }

  /** Sets the limit in force. It ends all setpoints above it, also those that have not begun, and the current slot. */
  limit(kw: number): void {
    this.record();
    this.#limitKw = kw;
    const slot = this.#slotNow();
    if (slot && (slot.kw ?? 0) > kw) slot.untilMs = this.#nowMs;
    for (const one of this.#setpoints) {
      if (one.ended === undefined && one.kw > kw) one.ended = 'CONSTRAINT_VIOLATION';
    }
    this.#look();
  }

  /** Adds a schedule of slots of a minute each. It has no effect until the gateway takes it. */
  addSchedule(messageId: string, fromMs: number, powers: readonly (number | null)[]): void {
    const slots = powers.map((kw, slotIndex) => ({
      slotIndex,
      kw,
      fromMs: fromMs + slotIndex * MINUTE,
      untilMs: fromMs + (slotIndex + 1) * MINUTE,
    }));
    const untilMs = fromMs + powers.length * MINUTE;
    this.#schedules.push({ messageId, order: this.record(), fromMs, untilMs, slots, isTaken: false });
  }

  /** The gateway took this schedule. Where two schedules overlap in time, the one recorded later keeps that time. */
  takeSchedule(messageId: string): void {
    const own = this.#schedules.find((one) => one.messageId === messageId);
    if (!own || own.ended !== undefined || own.isTaken) return;
    own.isTaken = true;
    const standing = this.#schedules.filter((one) => one.isTaken && one.ended === undefined);
    for (const older of standing) {
      for (const newer of standing) {
        const isNew = older === own || newer === own;
        if (!isNew || older.order >= newer.order) continue;
        for (const slot of older.slots) {
          const isMet = newer.fromMs < slot.untilMs && slot.fromMs < newer.untilMs;
          if (isMet && slot.untilMs > this.#nowMs) slot.untilMs = Math.max(slot.fromMs, newer.fromMs);
        }
      }
    }
    for (const one of standing) {
      const isLeft = one.slots.some((slot) => slot.untilMs > Math.max(slot.fromMs, this.#nowMs));
      if (!isLeft) one.ended = 'CANCELLED';
    }
    this.#look();
  }

  cancelSchedule(messageId: string): void {
    this.record();
    const one = this.#schedules.find((schedule) => schedule.messageId === messageId);
    if (one && one.ended === undefined) one.ended = 'CANCELLED';
    this.#look();
  }

  /** The gateway rejected a slot or did not answer it. */
  failSlot(messageId: string, slotIndex: number): void {
    const slot = this.#schedules.find((one) => one.messageId === messageId)?.slots[slotIndex];
    if (slot) slot.untilMs = Math.min(slot.untilMs, this.#nowMs);
    this.#look();
  }

  /** The messageIds of the schedules that have not ended. */
  openSchedules(): string[] {
    return this.#schedules.filter(({ ended }) => ended === undefined).map(({ messageId }) => messageId);
  }

  /** Ends all setpoints. One that had begun may have been sent or not, so the model allows both reasons. */
  addEmergency(messageId: string): void {
    this.#emergencyOrder = this.record();
    for (const one of this.#setpoints) {
      const stands = `EMERGENCY or SUPERSEDED by ${messageId}`;
      if (one.ended === undefined) one.ended = one.fromMs > this.#nowMs ? 'EMERGENCY' : stands;
    }
  }

  /** The device acknowledged the mode command with this number. */
  takeMode(order: number, mode: string, untilMs: number | null): void {
    if (untilMs === null) {
      this.#mode = mode;
      this.#override = undefined;
    } else this.#override = { mode, untilMs };
    if (this.#emergencyOrder !== undefined && this.#emergencyOrder < order) this.#emergencyOrder = undefined;
    this.#look();
  }

  /** The site reports a failure that the model cannot predict. */
  fail(messageId: string, reason: string): void {
    const one = [...this.#setpoints, ...this.#schedules].find((known) => known.messageId === messageId);
    if (one && one.ended === undefined) one.ended = reason;
    this.#look();
  }

  get isEmergency(): boolean {
    return this.#emergencyOrder !== undefined;
  }

  get mode(): string {
    return this.#override && this.#override.untilMs > this.#nowMs ? this.#override.mode : this.#mode;
  }

  /** The end that the model predicts for a setpoint or a schedule; undefined while it is open. */
  endOf(messageId: string): string | undefined {
    return [...this.#setpoints, ...this.#schedules].find((one) => one.messageId === messageId)?.ended;
  }

  /** The site evaluates its target: a slot above the limit is skipped. */
  skipUnfit(): void {
    this.doing();
  }

  #look(): void {
    this.#resolve(this.#nowMs);
    this.skipUnfit();
  }

  doing(): Doing {
    const open = this.#open(this.#nowMs).sort(
      (left, right) => HEIGHT[right.priority] - HEIGHT[left.priority] || right.order - left.order,
    );
    const [top] = open;
    const slot = this.#slotNow();
    const isOverSlot = top?.priority !== 'NORMAL' || !slot;
    if (top && (top.priority === 'EMERGENCY' || (!this.isEmergency && isOverSlot)))
      return { by: 'entry', messageId: top.messageId };
    if (slot && !this.isEmergency) {
      const { messageId, slotIndex, kw } = slot;
      if ((kw ?? 0) <= this.#limitKw) return { by: 'slot', messageId, slotIndex };
      // The slot exceeds the limit when it starts, so it is skipped and does not start later.
      slot.untilMs = this.#nowMs;
      this.#resolve(this.#nowMs);
      return this.doing();
    }
    return this.isEmergency ? { by: 'emergency' } : { by: 'mode', mode: this.mode };
  }

  /** The current slot. Slots of open schedules never overlap. */
  #slotNow(): (Slot & { messageId: string }) | undefined {
    for (const { messageId, slots, isTaken, ended } of this.#schedules) {
      if (!isTaken || ended !== undefined) continue;
      const slot = slots.find((one) => one.fromMs <= this.#nowMs && this.#nowMs < one.untilMs);
      if (slot) return Object.assign(slot, { messageId });
    }
    return undefined;
  }

  #open(atMs: number): Setpoint[] {
    return this.#setpoints.filter(
      (one) => one.ended === undefined && one.fromMs <= atMs && atMs < one.untilMs,
    );
  }

  /** Ends what is over at this moment; of open setpoints with the same priority only the newest stays. */
  #resolve(atMs: number): void {
    for (const one of this.#setpoints) {
      if (one.ended === undefined && one.untilMs <= atMs) one.ended = 'OVER';
    }
    for (const one of this.#schedules) {
      const isOver = one.isTaken
        ? one.fromMs <= atMs && one.slots.every(({ fromMs, untilMs }) => untilMs <= Math.max(fromMs, atMs))
        : one.untilMs <= atMs;
      if (one.ended === undefined && isOver) one.ended = 'OVER';
    }
    const open = this.#open(atMs);
    for (const one of open) {
      const newer = open.filter((other) => other.priority === one.priority && other.order > one.order);
      const newest = newer.sort((left, right) => right.order - left.order)[0];
      if (newest) one.ended = `SUPERSEDED by ${newest.messageId}`;
    }
  }
}
