/** What a command kind says of itself: all that differs between kinds is in here, and nowhere else. */
import type { DeviceCommandItem } from '../../../../protocol/command.ts';
import type { Turn } from '../../../object/turn.ts';
import type { SiteConfiguration } from '../../config/configuration.ts';
import type { DispatchRow } from '../../dispatch/rows.ts';
import type { Plan } from '../../plan/plan.ts';
import type { SiteFacts } from '../../site-facts.ts';
import type { Refusal } from '../refusal.ts';
import type { CommandRow } from '../rows.ts';

/** One item of a batch, and why it alone is rejected, by which stage. */
export interface JudgedItem {
  item: DeviceCommandItem;
  refusal: Refusal | undefined;
  stage?: StageName;
}

/** The stages behind the payload, in the spec's order (spec: Command processing; [C-7.4]). */
export type StageName = 'target' | 'constraint' | 'asset' | 'topology' | 'fault' | 'items';

/** What a stage sees. A batch's stages judge item by item into `items`; other kinds leave it empty. */
export interface Judging<Payload> {
  payload: Payload;
  facts: SiteFacts;
  items: JudgedItem[];
}

/** One check of the whole command; a refusal rejects it. */
export type Stage<Payload> = (judging: Judging<Payload>) => Refusal | undefined;

export interface Window {
  fromMs?: number | undefined;
  untilMs?: number | undefined;
  /** How long it waits for its device when it names no end. */
  waitsMs?: number;
  /** The field that names the end; absent: validUntil. */
  untilField?: string;
  /** Its device is told before `fromMs` too. */
  isToldAtOnce?: boolean;
}

/** One MQTT command that it becomes [C-7.8], [C-7.10]. */
export interface PlannedDispatch {
  deviceId: string;
  action: string;
  payloadText: string;
  /** Those of a batch that it carries. */
  items: DeviceCommandItem[];
}

/** Its device's ack ends it; or it stands in the plan, whatever the device says but FAILED, and a verdict ends it. */
export type End = 'ack' | 'plan';

export interface Kind<Payload> {
  /** What is wrong with a payload in this site, as far as its schema cannot tell: all of it. */
  faults?(payload: Payload, facts: SiteFacts): string[];
  /** Its own checks, behind signature, repeat, freshness and payload, in the spec's order [C-7.4]. */
  stages: readonly (readonly [StageName, Stage<Payload>])[];
  window(payload: Payload): Window;
  logColumns(payload: Payload): Pick<CommandRow, 'priority' | 'target' | 'target_value_kw'>;
  /** What it does to the site itself, once its device has taken it [C-7.7]. */
  effect?(turn: Turn, site: EffectSite, payload: Payload): void;
  /** What it becomes for the plant. */
  plan(payload: Payload, items: readonly JudgedItem[], facts: SiteFacts): PlannedDispatch[];
  /** What one that has waited becomes now: whoever serves it by now gets it. None: it stays as it was planned. */
  replan(payload: Payload, dispatch: DispatchRow, facts: SiteFacts): PlannedDispatch[];
  /** Why one that has waited may not go out now [C-7.6]. */
  recheck(payload: Payload, dispatch: DispatchRow, facts: SiteFacts): Refusal | undefined;
  end: End;
}

/** The site as an effect changes it, and whose command it is. */
export interface EffectSite {
  configuration: SiteConfiguration;
  plan: Plan;
  commandId: string;
  sequence: number;
  /** The prefix of the key that sent it. */
  keyPrefix: string;
}
