/**
 * Evaluates the alert rules of a plant as its readings arrive, and in the agenda what time alone changes [C-9].
 * Their state is stored in the journal's open block, so the evaluation of readings costs no extra row. D1 is
 * updated when an alert begins, while its condition is true (at most once a minute) and when it ends.
 */
import type { AlertOperator } from '../../../protocol/alert.ts';
import type { Alarm } from '../../../protocol/event.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { AlertRule, PlantCopy } from '../../../registry/plant-copy.ts';
import { type DueSource, earliest } from '../../object/agenda.ts';
import type { Turn } from '../../object/turn.ts';
import { alarmForKeys, alertRow, statusRow } from '../event/event-rows.ts';
import type { Outbox } from '../event/outbox.ts';
import type { Journal, Reading } from '../telemetry/journal.ts';
import { metricName } from '../telemetry/snapshot.ts';
import { dueMs, meets, type OpenAlert, type RuleState, type RuleStep, stepRule } from './rule.ts';

export interface AlertHost {
  registry: PlantCopy;
  journal: Journal;
  outbox: Outbox;
}

type States = Record<string, RuleState>;

/**
 * The result for a batch of readings: `text` is the new state of the rules; `report` sends the changes to D1.
 */
export interface Judgement {
  text: string;
  report(turn: Turn): void;
}

const WORDS: Record<AlertOperator, string> = {
  GT: 'over',
  GTE: 'at or over',
  LT: 'under',
  LTE: 'at or under',
  EQ: 'equal to',
  NE: 'not',
  ABSENT: '',
};

export class Alerts implements DueSource {
  readonly name = 'alerts';
  readonly #host: AlertHost;
  #known: { text: string; states: States } = { text: '', states: {} };

  constructor(host: AlertHost) {
    this.#host = host;
  }

  /** Evaluates new readings before they are written; undefined if no rule concerns them. */
  judge(readings: readonly Reading[], now: number): Judgement | undefined {
    const rules = this.#named();
    if (rules.length === 0) return undefined;
    const { newest, received } = this.#newest(readings);
    const judged = rules.flatMap((rule) => {
      // A reading with an old `ts` still proves that the metric is not ABSENT.
      const isReceived = rule.operator === 'ABSENT' && received.has(rule.metric);
      const value = newest.get(rule.metric) ?? (isReceived ? null : undefined);
      return value === undefined ? [] : [{ rule, value, holds: value !== null && meets(rule, value) }];
    });
    return judged.length === 0 ? undefined : this.#step(judged, now);
  }

  /** Resolves the open alerts of rules that were deleted or disabled, or are no longer for this plant. */
  rulesChanged(turn: Turn): void {
    const states = this.#states();
    const known = new Set(this.#named().map(({ id }) => id));
    const left = Object.entries(states).filter(([id]) => known.has(id));
    if (left.length === Object.keys(states).length) return;
    for (const [id, state] of Object.entries(states)) {
      if (!known.has(id)) this.#resolved(turn, id, state, undefined);
    }
    this.#host.journal.noteAlerts(turn, textOf(Object.fromEntries(left)));
  }

  /** Ends an alert that a user resolved; the rule opens no other alert before its cooldown is over. */
  end(turn: Turn, alertId: string): void {
    const states = this.#states();
    const ended = Object.entries(states).find(([, { open }]) => open?.id === alertId);
    if (!ended) return;
    const rule = this.#named().find(({ id }) => id === ended[0]);
    const notBeforeMs = turn.now + (rule?.cooldownSeconds ?? 0) * 1_000;
    const { open } = ended[1];
    if (open)
      this.#sendAlarm(turn, ended[0], open, rule, { status: 'CLEARED', text: 'a person resolved the alert' });
    this.#host.journal.noteAlerts(turn, textOf({ ...states, [ended[0]]: { notBeforeMs } }));
  }

  /**
   * When an ABSENT rule fires next, or an open alert ends because its condition has been false for long
   * enough. Undefined until the snapshot is in memory; the alarm that was set before the object was evicted
   * is still set then.
   */
  dueMs(): number | undefined {
    const { journal } = this.#host;
    if (!journal.isSnapshotRead || journal.isEmpty) return undefined;
    const states = this.#states();
    return earliest(this.#named().map((rule) => dueMs(rule, states[rule.id] ?? {}, this.#receivedMs(rule))));
  }

  run(turn: Turn): void {
    const states = this.#states();
    const due = this.#named().filter((rule) => {
      const at = dueMs(rule, states[rule.id] ?? {}, this.#receivedMs(rule));
      return at !== undefined && at <= turn.now;
    });
    const judged = due.map((rule) => {
      const receivedMs = this.#receivedMs(rule);
      const holds = rule.operator === 'ABSENT' && turn.now >= receivedMs + rule.forSeconds * 1_000;
      return { rule, value: null, holds, sinceMs: receivedMs };
    });
    const judgement = this.#step(judged, turn.now);
    judgement.report(turn);
    this.#host.journal.noteAlerts(turn, judgement.text);
  }

  #step(
    judged: readonly { rule: AlertRule; value: number | null; holds: boolean; sinceMs?: number }[],
    now: number,
  ): Judgement {
    const states = this.#states();
    const changes: { rule: AlertRule; value: number | null; step: RuleStep; before: RuleState }[] = [];
    for (const { rule, value, holds, sinceMs } of judged) {
      const before = states[rule.id] ?? {};
      const from = sinceMs === undefined || before.open || !holds ? before : { ...before, sinceMs };
      const step = stepRule(rule, from, holds, now, () => crypto.randomUUID());
      if (Object.keys(step.state).length > 0) states[rule.id] = step.state;
      else delete states[rule.id];
      if (step.change) changes.push({ rule, value, step, before });
    }
    return {
      text: textOf(states),
      report: (turn) => {
        for (const { rule, value, step, before } of changes) this.#report(turn, rule, value, step, before);
      },
    };
  }

  #report(
    turn: Turn,
    rule: AlertRule,
    value: number | null,
    { change, state }: RuleStep,
    before: RuleState,
  ): void {
    const { registry, outbox } = this.#host;
    const { open } = state;
    if (change === 'resolved') this.#resolved(turn, rule.id, before, rule);
    if (change === 'again' && open) {
      const columns = { count: open.count, lastSeenAtMs: turn.now, value };
      outbox.emit(turn, statusRow('alert', open.id, columns, turn.now));
    }
    if (change !== 'opened' || !open || !registry.record) return;
    const message = messageOf(rule, value);
    this.#sendAlarm(turn, rule.id, open, rule, { status: 'RAISED', text: message, value });
    outbox.emit(
      turn,
      alertRow(
        {
          id: open.id,
          organizationId: registry.record.organizationId,
          ruleId: rule.id,
          plantId: registry.record.plantId,
          deviceId: rule.deviceId,
          type: open.type,
          severity: open.severity,
          message,
          value,
          threshold: rule.threshold,
          firstSeenAtMs: open.firstSeenMs,
          lastSeenAtMs: turn.now,
          count: open.count,
        },
        turn.now,
      ),
    );
  }

  /** `rule`: undefined if the site no longer has it. */
  #resolved(
    turn: Turn,
    ruleId: string,
    { open, goneMs = turn.now }: RuleState,
    rule: AlertRule | undefined,
  ): void {
    if (!open) return;
    const text = rule ? `${rule.name}: the condition is over` : 'the alert rule was deleted or disabled';
    this.#sendAlarm(turn, ruleId, open, rule, { status: 'CLEARED', text });
    const columns = { status: 'RESOLVED', count: open.count, lastSeenAtMs: goneMs, resolvedAtMs: turn.now };
    this.#host.outbox.emit(turn, statusRow('alert', open.id, columns, turn.now));
  }

  /** Sends an alarm of the kind ALERT to every key that may see the plant. */
  #sendAlarm(
    turn: Turn,
    ruleId: string,
    open: OpenAlert,
    rule: AlertRule | undefined,
    { status, text, value }: { status: Alarm['status']; text: string; value?: number | null },
  ): void {
    const { registry, outbox } = this.#host;
    const alarm: Alarm = {
      alarmId: open.id,
      kind: 'ALERT',
      type: open.type,
      severity: open.severity,
      status,
      message: text,
      ruleId,
      ...(rule && { metric: rule.metric }),
      ...(rule?.deviceId && { deviceId: rule.deviceId }),
      ...(rule && rule.threshold !== null && { limit: rule.threshold }),
      ...(typeof value === 'number' && { value }),
      raisedAt: formatInstant(open.firstSeenMs),
      ...(status === 'CLEARED' && { clearedAt: formatInstant(turn.now) }),
    };
    for (const row of alarmForKeys(alarm, registry.keyIds, turn.now)) outbox.emit(turn, row);
  }

  /**
   * The newest value of each metric that is not older than the known value, and the names of all metrics that
   * were received.
   */
  #newest(readings: readonly Reading[]): { newest: Map<string, number>; received: Set<string> } {
    const { journal } = this.#host;
    const newest = new Map<string, { atMs: number; value: number }>();
    const received = new Set<string>();
    for (const { entry, data } of readings) {
      if (!data) continue;
      const origin = journal.meaningOf(entry.deviceId);
      for (const [name, value] of Object.entries(data)) {
        const metric = metricName(origin, name);
        received.add(metric);
        const knownMs = Math.max(newest.get(metric)?.atMs ?? 0, journal.snapshot.get(metric)?.atMs ?? 0);
        if (entry.ts >= knownMs) newest.set(metric, { atMs: entry.ts, value });
      }
    }
    return { newest: new Map([...newest].map(([metric, { value }]) => [metric, value])), received };
  }

  #receivedMs({ metric, createdAtMs }: AlertRule): number {
    const sample = this.#host.journal.snapshot.get(metric);
    return Math.max(sample?.receivedMs ?? sample?.atMs ?? 0, createdAtMs);
  }

  /**
   * Returns a copy: callers replace its entries but never mutate them. Parsed once per change; read after
   * each turn.
   */
  #states(): States {
    const { alerts: text } = this.#host.journal;
    if (text !== this.#known.text) this.#known = { text, states: text === '' ? {} : JSON.parse(text) };
    return { ...this.#known.states };
  }

  /**
   * The rules with the site's metric names. Not cached: the names change when a device's type or link
   * changes.
   */
  #named(): readonly AlertRule[] {
    const { registry, journal } = this.#host;
    return (registry.record?.alertRules ?? []).map((rule) => {
      const { deviceId, metric } = rule;
      return deviceId === null ? rule : { ...rule, metric: metricName(journal.meaningOf(deviceId), metric) };
    });
  }
}

function textOf(states: States): string {
  return Object.keys(states).length === 0 ? '' : JSON.stringify(states);
}

function messageOf(
  { name, metric, operator, threshold, forSeconds }: AlertRule,
  value: number | null,
): string {
  if (operator === 'ABSENT') return `${name}: no ${metric} received for ${forSeconds} s`;
  return `${name}: ${metric} is ${value}, ${WORDS[operator]} ${threshold}`;
}
