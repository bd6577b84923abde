/**
 * The plan of a site as a person would work it out with a pencil: which setpoints stand, which ended and why, what the
 * plant is to be doing. It shares no code with the product; it learns from the site only what chance decides, that is
 * which commands their device did not answer or refused [C-7.7].
 */
export type Priority = 'EMERGENCY' | 'HIGH' | 'NORMAL';

/** What a plant does by what it was told. */
export type Doing = { by: 'entry'; messageId: string } | { by: 'emergency' } | { by: 'mode'; mode: string };

interface Setpoint {
  messageId: string;
  order: number;
  priority: Priority;
  kw: number;
  fromMs: number;
  untilMs: number;
  /** Why it stands no longer; undefined while it does or has yet to begin. */
  ended?: string;
}

const HEIGHT: Record<Priority, number> = { EMERGENCY: 3, HIGH: 2, NORMAL: 1 };

export class PlanModel {
  readonly #setpoints: Setpoint[] = [];
  #emergencyOrder: number | undefined;
  #mode = 'STANDARD';
  #override: { mode: string; untilMs: number } | undefined;
  #nowMs: number;
  #order = 0;

  constructor(nowMs: number) {
    this.#nowMs = nowMs;
  }

  /** Time passes: each start and end in its turn. */
  passTo(nowMs: number): void {
    const moments = this.#setpoints.flatMap(({ fromMs, untilMs }) => [fromMs, untilMs]);
    for (const atMs of [...new Set(moments)].sort((left, right) => left - right)) {
      if (atMs > this.#nowMs && atMs <= nowMs) this.#resolve(atMs);
    }
    this.#nowMs = nowMs;
    this.#resolve(nowMs);
  }

  /** Returns the order in which it was recorded. */
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
    this.#resolve(this.#nowMs);
  }

  /** A limit is in force: what asks for more stands no longer, whether it has begun or not. */
  limit(kw: number): void {
    this.record();
    for (const one of this.#setpoints) {
      if (one.ended === undefined && one.kw > kw) one.ended = 'CONSTRAINT_VIOLATION';
    }
    this.#resolve(this.#nowMs);
  }

  /** What was never told waits and ends EMERGENCY, the rest stands: only the site knows what it could tell. */
  addEmergency(messageId: string): void {
    this.#emergencyOrder = this.record();
    for (const one of this.#setpoints) {
      const stands = `EMERGENCY or SUPERSEDED by ${messageId}`;
      if (one.ended === undefined) one.ended = one.fromMs > this.#nowMs ? 'EMERGENCY' : stands;
    }
  }

  /** The device has taken a mode that was recorded then. */
  takeMode(order: number, mode: string, untilMs: number | null): void {
    if (untilMs === null) {
      this.#mode = mode;
      this.#override = undefined;
    } else this.#override = { mode, untilMs };
    if (this.#emergencyOrder !== undefined && this.#emergencyOrder < order) this.#emergencyOrder = undefined;
  }

  /** The site says that a command failed in a way that nobody could foresee. */
  fail(messageId: string, reason: string): void {
    const one = this.#setpoints.find((setpoint) => setpoint.messageId === messageId);
    if (one && one.ended === undefined) one.ended = reason;
  }

  get isEmergency(): boolean {
    return this.#emergencyOrder !== undefined;
  }

  get mode(): string {
    return this.#override && this.#override.untilMs > this.#nowMs ? this.#override.mode : this.#mode;
  }

  /** Why a setpoint stands no longer: foreseen, so it must be so. */
  endOf(messageId: string): string | undefined {
    return this.#setpoints.find((setpoint) => setpoint.messageId === messageId)?.ended;
  }

  doing(): Doing {
    const open = this.#open(this.#nowMs).sort(
      (left, right) => HEIGHT[right.priority] - HEIGHT[left.priority] || right.order - left.order,
    );
    const [top] = open;
    if (top && (top.priority === 'EMERGENCY' || !this.isEmergency))
      return { by: 'entry', messageId: top.messageId };
    return this.isEmergency ? { by: 'emergency' } : { by: 'mode', mode: this.mode };
  }

  #open(atMs: number): Setpoint[] {
    return this.#setpoints.filter(
      (one) => one.ended === undefined && one.fromMs <= atMs && atMs < one.untilMs,
    );
  }

  /** At one moment: what is over is over, and of two of a priority the later recorded one stays. */
  #resolve(atMs: number): void {
    for (const one of this.#setpoints) {
      if (one.ended === undefined && one.untilMs <= atMs) one.ended = 'OVER';
    }
    const open = this.#open(atMs);
    for (const one of open) {
      const newer = open.filter((other) => other.priority === one.priority && other.order > one.order);
      const newest = newer.sort((left, right) => right.order - left.order)[0];
      if (newest) one.ended = `SUPERSEDED by ${newest.messageId}`;
    }
  }
}
