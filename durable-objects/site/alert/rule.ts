/**
 * One alert rule at one plant: when an alert begins, goes on and ends [C-9]. Pure: readings and `now` go in, the next
 * state and what to tell come out.
 *
 *   idle ─ true ─► pending ─ true for forSeconds, cooldown over ─► open
 *     ▲ false          │ false                                      │ false for forSeconds, or resolved by somebody
 *     └────────────────┴─────────────────── cooldown ◄──────────────┘
 */
import type { AlertOperator } from '../../../protocol/alert.ts';

/** What comes and goes with each message is counted each time, and told no more often than this. */
const AGAIN_MS = 60_000;

/** A rule as a site holds it; `metric` as the site names it. */
export interface Rule {
  operator: AlertOperator;
  threshold: number | null;
  forSeconds: number;
  cooldownSeconds: number;
}

export interface OpenAlert {
  id: string;
  firstSeenMs: number;
  /** How often the condition began. */
  count: number;
  /** When it was last told that it began. */
  toldMs: number;
}

/** What is remembered of a rule; nothing at all of one that is idle and never fired. Instants are epoch ms. */
export interface RuleState {
  /** Since when the condition holds. */
  sinceMs?: number;
  /** Since when it holds no more, while an alert is open. */
  goneMs?: number;
  open?: OpenAlert;
  /** No other alert begins before it. */
  notBeforeMs?: number;
}

export type RuleStep = { state: RuleState; tell?: 'opened' | 'again' | 'resolved' };

/** What it comes to that the condition holds now, or does not. `newId` names an alert that begins. */
export function stepRule(
  rule: Rule,
  state: RuleState,
  holds: boolean,
  now: number,
  newId: () => string,
): RuleStep {
  return state.open
    ? stepOpen(rule, { ...state, open: state.open }, holds, now)
    : stepIdle(rule, state, holds, now, newId);
}

function stepIdle(rule: Rule, state: RuleState, holds: boolean, now: number, newId: () => string): RuleStep {
  const { sinceMs = now, notBeforeMs = 0 } = state;
  const rest: RuleState = now < notBeforeMs ? { notBeforeMs } : {};
  if (!holds) return { state: rest };
  const firesAtMs = Math.max(sinceMs + rule.forSeconds * 1_000, notBeforeMs);
  if (now < firesAtMs) return { state: { ...rest, sinceMs } };
  return {
    state: { sinceMs, open: { id: newId(), firstSeenMs: sinceMs, count: 1, toldMs: now } },
    tell: 'opened',
  };
}

function stepOpen(
  rule: Rule,
  { sinceMs, goneMs, open }: RuleState & { open: OpenAlert },
  holds: boolean,
  now: number,
): RuleStep {
  if (holds) {
    if (goneMs === undefined) return { state: { sinceMs: sinceMs ?? now, open } };
    const again = { ...open, count: open.count + 1 };
    const isToldAgain = now - open.toldMs >= AGAIN_MS;
    if (!isToldAgain) return { state: { sinceMs: now, open: again } };
    return { state: { sinceMs: now, open: { ...again, toldMs: now } }, tell: 'again' };
  }
  const sinceGoneMs = goneMs ?? now;
  if (now - sinceGoneMs < rule.forSeconds * 1_000) return { state: { goneMs: sinceGoneMs, open } };
  return { state: { notBeforeMs: now + rule.cooldownSeconds * 1_000 }, tell: 'resolved' };
}

/** Whether a reading meets the condition. */
export function meets({ operator, threshold }: Rule, value: number): boolean {
  const against = threshold ?? 0;
  switch (operator) {
    case 'GT':
      return value > against;
    case 'GTE':
      return value >= against;
    case 'LT':
      return value < against;
    case 'LTE':
      return value <= against;
    case 'EQ':
      return value === against;
    case 'NE':
      return value !== against;
    case 'ABSENT':
      return false;
  }
}

/**
 * When time alone changes it next; of a rule about what is absent, `heardMs` is when it was last heard. A condition is
 * judged by readings, so only what ends, or is absent, needs a clock.
 */
export function dueMs(rule: Rule, state: RuleState, heardMs: number): number | undefined {
  if (rule.operator === 'ABSENT' && !state.open) {
    return Math.max(heardMs + rule.forSeconds * 1_000, state.notBeforeMs ?? 0);
  }
  if (state.goneMs !== undefined) return state.goneMs + rule.forSeconds * 1_000;
  return undefined;
}
