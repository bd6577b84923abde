/** An explanation as one sentence for a person [C-13.3]. Pure. */
import type { Explanation, PlanPlace } from '../../../protocol/explain.ts';

/** What the sentence says about a command: whose it is. */
export type NameOf = (place: PlanPlace) => string;

export function sentenceOf(
  { target, waiting, sent, measured, session, fallback }: Omit<Explanation, 'sentence' | 'at'>,
  isFailed: boolean,
  nameOf: NameOf,
): string {
  if (!target)
    return 'Nothing is recorded about this moment: the plan history begins later, or its rows of that time were deleted.';
  return `${[
    target.level === 'MODE'
      ? `${doing(target)}${until(target)}, because no setpoint, slot or emergency is active`
      : `${doing(target)} by ${theThing(target, nameOf)}${until(target)}`,
    ...waiting
      .filter(({ level }) => level !== 'MODE')
      .map((place) => `${theThing(place, nameOf)} waits below it`),
    // Of the command of another partner nothing more is said.
    ...(target.level !== 'MODE' && target.commandId === null
      ? []
      : sendingText(sent, session, target, isFailed)),
    ...(fallback ? ['the plant probably runs its fallback'] : []),
    ...measuredText(measured, sent?.acknowledgedAt != null),
  ].join('; ')}.`;
}

function doing({ level, kw, mode }: PlanPlace): string {
  if (level === 'STOP') return 'Stopped';
  if (level === 'HOLD') return 'Held at its previous power';
  if (kw !== null) return `Held at ${power(kw)}`;
  return mode === null ? 'Held' : `In mode ${mode}`;
}

function theThing(place: PlanPlace, nameOf: NameOf): string {
  switch (place.level) {
    case 'MODE':
      return `the mode ${place.mode}`;
    case 'SLOT':
      return place.slot === null
        ? `the slot of a schedule ${nameOf(place)}`
        : `slot ${place.slot} of the schedule ${nameOf(place)}`;
    case 'STOP':
    case 'HOLD':
      return `the emergency ${nameOf(place)}`;
    default:
      return `the ${place.level} setpoint ${nameOf(place)}`;
  }
}

function until({ level, until: end }: PlanPlace): string {
  if (end !== null) return ` until ${end}`;
  if (level === 'STOP' || level === 'HOLD') return ' until a mode command ends it';
  return '';
}

function sendingText(
  sent: Explanation['sent'],
  session: Explanation['session'],
  { level }: PlanPlace,
  isFailed: boolean,
): string[] {
  // Nothing need be sent while the plant follows its mode.
  if (level === 'MODE' && !isFailed) return [];
  if (sent?.acknowledgedAt) return [`the plant acknowledged the target at ${sent.acknowledgedAt}`];
  if (sent && isFailed)
    return [`the target was sent at ${sent.at}, and the plant answered FAILED or did not answer`];
  if (sent) return [`the target was sent at ${sent.at}, and the plant has not acknowledged it`];
  if (session === 'NONE') return ['no gateway serves the site, so nothing was sent'];
  return [session === 'AWAY' ? 'nothing was sent: the gateway is away' : 'nothing was sent yet'];
}

function measuredText(measured: Explanation['measured'], isAcknowledged: boolean): string[] {
  if (!measured || (measured.kw === null && measured.expectedKw === null)) return [];
  const { kw, expectedKw, verdict } = measured;
  if (kw === null) return ['no fresh measurement'];
  const is = `${power(kw)} measured`;
  switch (verdict) {
    case 'FOLLOWS':
    case 'COMPLETED':
      return [`the plant followed: ${is}`];
    case 'DEVIATES':
    case 'DEVIATED':
      return [`the plant did not follow: ${is}, ${power(expectedKw ?? 0)} expected`];
    case 'SETTLING':
      return [isAcknowledged ? `the plant is settling: ${is}` : is];
    default:
      return [is];
  }
}

function power(kw: number): string {
  return `${Math.abs(kw)} kW ${kw < 0 ? 'export' : 'import'}`;
}
