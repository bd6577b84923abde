/**
 * The alert rules of a plant, judged as its readings come in [C-9]. What is remembered of them rides in the journal's
 * open block, so judging costs no row; D1 is told when an alert begins, begins again, and ends.
 */
import type { AlertOperator } from '../../../protocol/alert.ts';
import { type DueSource, earliest } from '../../object/agenda.ts';
import type { Turn } from '../../object/turn.ts';
import type { AlertRule, PlantCopy } from '../../registry/plant-copy.ts';
import type { Outbox } from '../event/outbox.ts';
import { alertChangeRow, alertRow } from '../event/registry-rows.ts';
import type { Journal, Reading } from '../telemetry/journal.ts';
import { metricName } from '../telemetry/snapshot.ts';
import { dueMs, meets, type RuleState, type RuleStep, stepRule } from './rule.ts';

export interface AlertParts {
  registry: PlantCopy;
  journal: Journal;
  outbox: Outbox;
}

type States = Record<string, RuleState>;

/** What a batch of readings comes to: `text` is what is remembered from now on. */
export interface Judgement {
  text: string;
  tell(turn: Turn): void;
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
  readonly #parts: AlertParts;
  #known: { text: string; states: States } = { text: '', states: {} };

  constructor(parts: AlertParts) {
    this.#parts = parts;
  }

  /** Judges what comes, before any of it is written; undefined where there is nothing to judge. */
  judge(readings: readonly Reading[], now: number): Judgement | undefined {
    const rules = this.#named();
    if (rules.length === 0) return undefined;
    const { newest, heard } = this.#newest(readings);
    const judged = rules.flatMap((rule) => {
      // What a device's clock says is no sign of its silence.
      const isHeard = rule.operator === 'ABSENT' && heard.has(rule.metric);
      const value = newest.get(rule.metric) ?? (isHeard ? null : undefined);
      return value === undefined ? [] : [{ rule, value, holds: value !== null && meets(rule, value) }];
    });
    return judged.length === 0 ? undefined : this.#step(judged, now);
  }

  /** Rules that are no more take their alerts with them. */
  rulesChanged(turn: Turn): void {
    const states = this.#states();
    const known = new Set(this.#named().map(({ id }) => id));
    const left = Object.entries(states).filter(([id]) => known.has(id));
    if (left.length === Object.keys(states).length) return;
    for (const [id, state] of Object.entries(states)) {
      if (!known.has(id)) this.#resolved(turn, state);
    }
    this.#parts.journal.noteAlerts(turn, textOf(Object.fromEntries(left)));
  }

  /** Somebody resolved an alert: it is over here, and no other begins before its cooldown is. */
  end(turn: Turn, alertId: string): void {
    const states = this.#states();
    const ended = Object.entries(states).find(([, { open }]) => open?.id === alertId);
    if (!ended) return;
    const rule = this.#named().find(({ id }) => id === ended[0]);
    const notBeforeMs = turn.now + (rule?.cooldownSeconds ?? 0) * 1_000;
    this.#parts.journal.noteAlerts(turn, textOf({ ...states, [ended[0]]: { notBeforeMs } }));
  }

  /** What is absent, and what has gone for long enough. Until the latest values are read, what stood before stands. */
  dueMs(): number | undefined {
    const { journal } = this.#parts;
    if (!journal.isSnapshotRead || journal.isEmpty) return undefined;
    const states = this.#states();
    return earliest(this.#named().map((rule) => dueMs(rule, states[rule.id] ?? {}, this.#heardMs(rule))));
  }

  run(turn: Turn): void {
    const states = this.#states();
    const due = this.#named().filter((rule) => {
      const at = dueMs(rule, states[rule.id] ?? {}, this.#heardMs(rule));
      return at !== undefined && at <= turn.now;
    });
    const judged = due.map((rule) => {
      const heardMs = this.#heardMs(rule);
      const holds = rule.operator === 'ABSENT' && turn.now >= heardMs + rule.forSeconds * 1_000;
      return { rule, value: null, holds, sinceMs: heardMs };
    });
    const judgement = this.#step(judged, turn.now);
    judgement.tell(turn);
    this.#parts.journal.noteAlerts(turn, judgement.text);
  }

  #step(
    judged: readonly { rule: AlertRule; value: number | null; holds: boolean; sinceMs?: number }[],
    now: number,
  ): Judgement {
    const states = this.#states();
    const told: { rule: AlertRule; value: number | null; step: RuleStep; before: RuleState }[] = [];
    for (const { rule, value, holds, sinceMs } of judged) {
      const before = states[rule.id] ?? {};
      const from = sinceMs === undefined || before.open || !holds ? before : { ...before, sinceMs };
      const step = stepRule(rule, from, holds, now, () => crypto.randomUUID());
      if (Object.keys(step.state).length > 0) states[rule.id] = step.state;
      else delete states[rule.id];
      if (step.tell) told.push({ rule, value, step, before });
    }
    return {
      text: textOf(states),
      tell: (turn) => {
        for (const { rule, value, step, before } of told) this.#tell(turn, rule, value, step, before);
      },
    };
  }

  #tell(
    turn: Turn,
    rule: AlertRule,
    value: number | null,
    { tell, state }: RuleStep,
    before: RuleState,
  ): void {
    const { registry, outbox } = this.#parts;
    const { open } = state;
    if (tell === 'resolved') this.#resolved(turn, before);
    if (tell === 'again' && open) {
      const columns = { count: open.count, lastSeenAtMs: turn.now, value };
      outbox.emit(turn, alertChangeRow(open.id, columns, turn.now));
    }
    if (tell !== 'opened' || !open || !registry.record) return;
    outbox.emit(
      turn,
      alertRow(
        {
          id: open.id,
          organizationId: registry.record.organizationId,
          ruleId: rule.id,
          plantId: registry.record.plantId,
          deviceId: rule.deviceId,
          type: rule.operator === 'ABSENT' ? 'ABSENT' : 'THRESHOLD',
          severity: rule.severity,
          message: messageOf(rule, value),
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

  #resolved(turn: Turn, { open, goneMs = turn.now }: RuleState): void {
    if (!open) return;
    const columns = { status: 'RESOLVED', count: open.count, lastSeenAtMs: goneMs, resolvedAtMs: turn.now };
    this.#parts.outbox.emit(turn, alertChangeRow(open.id, columns, turn.now));
  }

  /** The newest value of each metric, where it is newer than what is known; and all metrics that were heard. */
  #newest(readings: readonly Reading[]): { newest: Map<string, number>; heard: Set<string> } {
    const { journal } = this.#parts;
    const newest = new Map<string, { atMs: number; value: number }>();
    const heard = new Set<string>();
    for (const { entry, data } of readings) {
      if (!data) continue;
      const origin = journal.meaningOf(entry.deviceId);
      for (const [name, value] of Object.entries(data)) {
        const metric = metricName(origin, name);
        heard.add(metric);
        const knownMs = Math.max(newest.get(metric)?.atMs ?? 0, journal.snapshot.get(metric)?.atMs ?? 0);
        if (entry.ts >= knownMs) newest.set(metric, { atMs: entry.ts, value });
      }
    }
    return { newest: new Map([...newest].map(([metric, { value }]) => [metric, value])), heard };
  }

  #heardMs({ metric, createdAtMs }: AlertRule): number {
    const sample = this.#parts.journal.snapshot.get(metric);
    return Math.max(sample?.heardMs ?? sample?.atMs ?? 0, createdAtMs);
  }

  /** A copy, of which an entry is replaced, never changed: it is asked for after each turn. */
  #states(): States {
    const { alerts: text } = this.#parts.journal;
    if (text !== this.#known.text) this.#known = { text, states: text === '' ? {} : JSON.parse(text) };
    return { ...this.#known.states };
  }

  /** With their metrics as the site names them, anew each time: what a device's names mean changes with what the device is, too. */
  #named(): readonly AlertRule[] {
    const { registry, journal } = this.#parts;
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
  if (operator === 'ABSENT') return `${name}: ${metric} was not heard for ${forSeconds} s`;
  return `${name}: ${metric} is ${value}, ${WORDS[operator]} ${threshold}`;
}
