/**
 * One alert rule at one plant: when an alert begins, when it is reported again and when it ends [C-9]. Pure:
 * readings and `now` go in, the next state and what to change come out.
 *
 *   idle ─ true ─► pending ─ true for forSeconds, cooldown over ─► open
 *     ▲ false          │ false                                      │ false for forSeconds, or resolved by a user
 *     └────────────────┴─────────────────── cooldown ◄──────────────┘
 */
import type { AlertOperator, AlertSeverity, RuleAlertType } from '../../../protocol/alert.ts';

/** An open alert whose condition is true again, or still, is reported at most this often. */
const AGAIN_MS = 60_000;

/** The fields of an alert rule that decide when an alert begins and ends. */
export interface Rule {
  severity: AlertSeverity;
  operator: AlertOperator;
  threshold: number | null;
  forSeconds: number;
  cooldownSeconds: number;
}

export interface OpenAlert {
  id: string;
  firstSeenMs: number;
  /** How many times the condition began. */
  count: number;
  /** When it was last reported to D1 that the condition is true. */
  reportedMs: number;
  /** Of the rule when the alert began: its end is reported even if the rule is gone. */
  type: RuleAlertType;
  severity: AlertSeverity;
}

/** The state of a rule; empty while it is idle and no cooldown runs. Times are epoch ms. */
export interface RuleState {
  /** Since when the condition is true. */
  sinceMs?: number;
  /** Since when the condition is false while an alert is still open. */
  goneMs?: number;
  open?: OpenAlert;
  /** End of the cooldown: no other alert begins earlier. */
  notBeforeMs?: number;
}

export type RuleStep = { state: RuleState; change?: 'opened' | 'again' | 'resolved' };

/**
 * Returns the next state of a rule. `holds`: whether the condition is true now. `newId` creates the id of an
 * alert that begins.
 */
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
    state: { sinceMs, open: openAlert(rule, newId(), sinceMs, now) },
    change: 'opened',
  };
}

function openAlert({ operator, severity }: Rule, id: string, firstSeenMs: number, now: number): OpenAlert {
  return { id, firstSeenMs, count: 1, reportedMs: now, type: typeOf(operator), severity };
}

function typeOf(operator: AlertOperator): RuleAlertType {
  return operator === 'ABSENT' ? 'ABSENT' : 'THRESHOLD';
}

function stepOpen(
  rule: Rule,
  { sinceMs, goneMs, open }: RuleState & { open: OpenAlert },
  holds: boolean,
  now: number,
): RuleStep {
  if (holds) {
    const isStill = goneMs === undefined;
    const from = isStill ? (sinceMs ?? now) : now;
    const counted = isStill ? open : { ...open, count: open.count + 1 };
    const isReported = now - open.reportedMs >= AGAIN_MS;
    if (!isReported) return { state: { sinceMs: from, open: counted } };
    return { state: { sinceMs: from, open: { ...counted, reportedMs: now } }, change: 'again' };
  }
  const sinceGoneMs = goneMs ?? now;
  if (now - sinceGoneMs < rule.forSeconds * 1_000) return { state: { goneMs: sinceGoneMs, open } };
  return { state: { notBeforeMs: now + rule.cooldownSeconds * 1_000 }, change: 'resolved' };
}

/** Whether a value is true for an operator and its threshold. No value is true for ABSENT. */
const MEETS: Record<AlertOperator, (value: number, against: number) => boolean> = {
  GT: (value, against) => value > against,
  GTE: (value, against) => value >= against,
  LT: (value, against) => value < against,
  LTE: (value, against) => value <= against,
  EQ: (value, against) => value === against,
  NE: (value, against) => value !== against,
  ABSENT: () => false,
};

/** Whether a reading meets the condition. */
export function meets({ operator, threshold }: Rule, value: number): boolean {
  return MEETS[operator](value, threshold ?? 0);
}

/**
 * When the rule's state changes next without a reading: an open alert ends, or an ABSENT rule fires. All
 * other changes happen when readings arrive. `receivedMs`: when the metric was last received, for ABSENT.
 */
export function dueMs(rule: Rule, state: RuleState, receivedMs: number): number | undefined {
  if (rule.operator === 'ABSENT' && !state.open) {
    return Math.max(receivedMs + rule.forSeconds * 1_000, state.notBeforeMs ?? 0);
  }
  if (state.goneMs !== undefined) return state.goneMs + rule.forSeconds * 1_000;
  return undefined;
}
