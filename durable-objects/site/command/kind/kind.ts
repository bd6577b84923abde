/** The rules of one command type: everything that differs between types and needs no site object. Pure. */
import type { DeviceCommandItem } from '../../../../protocol/command.ts';
import type { Admissible } from '../../../../protocol/dry-run.ts';
import type { PlannedDispatch, Window } from '../../dispatch/dispatch.ts';
import type { Refusal, Violation } from '../../refusal.ts';
import type { SiteView } from '../../site-view.ts';
import type { CommandRow } from '../rows.ts';

/** One item of a batch. `refusal`: why this item is rejected; `stage`: the stage that rejected it. */
export interface JudgedItem {
  item: DeviceCommandItem;
  refusal: Refusal | undefined;
  stage?: StageName;
  /** All checks that failed, in their order, with the refusal of each. */
  found?: readonly { stage: StageName; why: Refusal }[];
}

/** The stages after the payload check, in the spec's order (spec: Command processing; [C-7.4]). */
export type StageName = 'target' | 'constraint' | 'asset' | 'topology' | 'fault';

/** The input of a stage. A batch's stages add one entry per item to `items`; other kinds leave it empty. */
export interface Judging<Payload> {
  payload: Payload;
  view: SiteView;
  items: JudgedItem[];
}

/** Checks the whole command; a refusal rejects it. */
export type Stage<Payload> = (judging: Judging<Payload>) => Refusal | undefined;

/** A waiting dispatch as `plan` returned it, without its items. */
export type Waiting = Omit<PlannedDispatch, 'items'>;

/** A payload that a refused one could be changed to, and the value that differs. */
export interface Nearest<Payload> {
  payload: Payload;
  admissible: Admissible;
}

export interface Kind<Payload> {
  /** All faults of a payload that its schema cannot find because they depend on the site. */
  faults?(payload: Payload, view: SiteView): string[];
  /** The checks after signature, repeat, freshness and payload, in the spec's order [C-7.4]. */
  stages: readonly (readonly [StageName, Stage<Payload>])[];
  /** True: it also goes to devices that sub-devices are linked to. */
  reachesLinked?: true;
  /** The checks of each item of a batch, in their order: they take the place of `stages` where people read about them. */
  itemStages?: readonly StageName[];
  /**
   * The payload with the nearest value that keeps the violated limit; undefined if no value does. `round`: makes a
   * computed value exact.
   */
  nearest?(
    payload: Payload,
    violation: Violation,
    view: SiteView,
    round: (value: number) => number,
  ): Nearest<Payload> | undefined;
  window(payload: Payload): Window;
  logColumns(payload: Payload): Pick<CommandRow, 'priority' | 'target' | 'target_value_kw'>;
  /** The MQTT commands that the command becomes. */
  plan(payload: Payload, items: readonly JudgedItem[], view: SiteView): PlannedDispatch[];
  /**
   * The dispatches that replace a waiting dispatch when it is sent now to the devices that serve now. Empty:
   * it is sent as it was planned.
   */
  replan(payload: Payload, waiting: Waiting, view: SiteView): PlannedDispatch[];
  /** Why a waiting dispatch may not stay, or, with `isSent`, may not be sent now [C-7.6]. */
  recheck(payload: Payload, waiting: Waiting, view: SiteView, isSent: boolean): Refusal | undefined;
}
