/** What each check said about a submission, for a dry run [C-13.1]. Pure: derived from the judgement, decides nothing. */
import { type Command, type CommandOf, parsePublish } from '../../../protocol/command.ts';
import type { Admissible, DryRunStage } from '../../../protocol/dry-run.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { type CommandType, FAMILY_RULES } from '../../../protocol/routing-keys.ts';
import type { Refusal, Violation } from '../refusal.ts';
import type { SiteView } from '../site-view.ts';
import type { JudgedItem } from './kind/kind.ts';
import { KINDS, kindOf } from './kind/kinds.ts';
import { type DecidingStage, type Judgement, judgeCommand, type Received } from './pipeline.ts';

/** A refusal of the whole command, or of one item of a batch (`place`). */
interface Found {
  stage: DecidingStage;
  why: Refusal;
  place?: number;
}

/** The checks in their order, with their outcomes. */
export function stagesOf(
  { submission }: Received,
  judgement: Judgement,
  view: SiteView,
  now: number,
): DryRunStage[] {
  const names = stageNames(FAMILY_RULES[submission.family].commandType);
  const found = refusalsOf(judgement);
  const isAnyLimit = found.some(({ why }) => why.violation !== undefined);
  const parsed = isAnyLimit
    ? parsePublish(submission.family, submission.routingKey, submission.payloadText)
    : undefined;
  const admissible = parsed?.ok ? admissibleOf(parsed.value, found, view, now) : undefined;
  const last = lastStage(judgement, names);
  return names.flatMap((stage, index): DryRunStage[] => {
    const refused = found.filter((one) => one.stage === stage).slice(0, LIMIT.faultsReported);
    if (refused.length > 0) return refused.map(({ why }) => refusedStage(stage, why, admissible?.get(why)));
    const hasNothing = submission.signature !== 'valid' && (stage === 'signature' || stage === 'freshness');
    return [{ stage, outcome: index > last || hasNothing ? 'skipped' : 'ok' }];
  });
}

function stageNames(commandType: CommandType): DryRunStage['stage'][] {
  const { stages, itemStages = stages.map(([stage]) => stage) } = KINDS[commandType];
  return ['signature', 'repeat', 'freshness', 'payload', 'window', ...new Set(itemStages)];
}

/** The place of the last check that was made. A batch makes all of its checks, unless an earlier one refuses it. */
function lastStage(judgement: Judgement, names: readonly string[]): number {
  if (judgement.verdict === 'repeat') return names.indexOf('repeat');
  const isWhole = judgement.verdict === 'rejected' && !judgement.items;
  return isWhole ? names.indexOf(judgement.stage) : names.length;
}

function refusalsOf(judgement: Judgement): Found[] {
  if (judgement.verdict === 'repeat') return [];
  if (judgement.items && judgement.items.length > 0) return judgement.items.flatMap(foundIn);
  if (judgement.verdict === 'valid') return [];
  const { stage, refusal } = judgement;
  return (refusal.parts ?? [refusal]).map((why) => ({ stage, why }));
}

function foundIn({ refusal, stage, found }: JudgedItem, place: number): Found[] {
  if (!refusal || !stage) return [];
  return (found ?? [{ stage, why: refusal }]).map((one) => ({ ...one, place }));
}

function refusedStage(
  stage: DryRunStage['stage'],
  { message, violation }: Refusal,
  admissible: Admissible | undefined,
): DryRunStage {
  const { constraint, limit, value, unit, deviceId, slot } = violation ?? ({} as Partial<Violation>);
  const about = { deviceId, slot, constraint, limit, value, unit, admissible };
  const known = Object.entries(about).filter(([, field]) => field !== undefined);
  return { stage, outcome: 'refused', message, ...Object.fromEntries(known) };
}

/** Computed values are tried as they are, then rounded down to a thousandth, then a thousandth less. */
const ROUNDINGS: readonly ((value: number) => number)[] = [
  (value) => value,
  (value) => Math.floor(value * 1_000) / 1_000,
  (value) => Math.floor(value * 1_000 - 1) / 1_000,
];

/**
 * The nearest values for the violated limits. All of them are put into the command, which is judged again: only values
 * that are accepted then are named.
 */
function admissibleOf<Type extends CommandType>(
  command: CommandOf<Type>,
  found: readonly Found[],
  view: SiteView,
  now: number,
): Map<Refusal, Admissible> {
  const kind = kindOf(command);
  const named = new Map<Refusal, Admissible>();
  let last: unknown;
  for (const round of ROUNDINGS) {
    let { payload } = command;
    const candidates: (Found & { admissible: Admissible })[] = [];
    for (const one of found) {
      const { violation } = one.why;
      const nearest = violation && kind.nearest?.(payload, violation, view, round);
      if (!nearest) continue;
      payload = nearest.payload;
      candidates.push({ ...one, admissible: nearest.admissible });
    }
    // Most kinds have nothing to round.
    const bounds = JSON.stringify(candidates.map(({ admissible }) => admissible));
    if (candidates.length === 0 || bounds === last) break;
    last = bounds;
    const judgement = judgeCommand({ ...command, payload } as Command, view, now);
    for (const { why, place, admissible } of candidates) {
      if (!named.has(why) && isAccepted(judgement, place)) named.set(why, admissible);
    }
    if (named.size === new Set(candidates.map(({ why }) => why)).size) break;
  }
  return named;
}

function isAccepted(judgement: Judgement, place: number | undefined): boolean {
  if (judgement.verdict !== 'valid') return false;
  return place === undefined || judgement.items[place]?.refusal === undefined;
}
