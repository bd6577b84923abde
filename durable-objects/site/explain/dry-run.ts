/**
 * A dry run: submissions go through the pipeline, the plan and the dispatches as real ones do, in a turn that is thrown
 * away; what is left is what they would have been answered and what would have happened [C-13.1].
 */
import type { DryRunAnswer, PlanLevel } from '../../../protocol/dry-run.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { PlantCopy } from '../../../registry/plant-copy.ts';
import type { Asker } from '../../ask-rpc.ts';
import type { Clock } from '../../object/clock.ts';
import type { Turn, Turns } from '../../object/turn.ts';
import type { SubmissionBatch } from '../../rpc.ts';
import type { Commands } from '../command/commands.ts';
import { recording } from '../command/inputs.ts';
import { kindOf } from '../command/kind/kinds.ts';
import type { CommandOwners } from '../command/owner.ts';
import type { Judgement } from '../command/pipeline.ts';
import type { CommandRow } from '../command/rows.ts';
import { stagesOf } from '../command/stages.ts';
import type { Submissions } from '../command/submissions.ts';
import type { Configuration } from '../config/configuration.ts';
import { windowOf } from '../dispatch/dispatch.ts';
import type { Dispatches } from '../dispatch/dispatches.ts';
import type { DispatchRow } from '../dispatch/rows.ts';
import type { SiteIdentity } from '../identity.ts';
import type { Plan } from '../plan/plan.ts';
import { isOpen, LEVELS } from '../plan/stack.ts';
import { isSeen } from '../sight.ts';
import type { SiteView, ViewOf } from '../site-view.ts';
import type { Journal } from '../telemetry/journal.ts';
import { type Place, placeOf, shownPayload } from './place.ts';

export interface DryRunHost {
  clock: Clock;
  turns: Turns;
  identity: SiteIdentity;
  registry: PlantCopy;
  submissions: Submissions;
  commands: Commands;
  dispatches: Dispatches;
  plan: Plan;
  configuration: Configuration;
  journal: Journal;
  owners: CommandOwners;
  view: ViewOf;
}

type Planned = NonNullable<DryRunAnswer['plan']>;
type PlantCommand = NonNullable<Planned['plantCommand']>;

/** The plan before a command: its target, the commands with an open entry, and how many have ended in the dry run. */
interface Before {
  top: Place;
  placed: ReadonlySet<number>;
  ends: number;
}

/** A valid new command of a dry run. */
type Accepted = Extract<Judgement, { verdict: 'valid' }> & { sequence: number };

/** See `SiteRpc`. */
export async function dryRun(host: DryRunHost, batch: SubmissionBatch, asker: Asker): Promise<string[]> {
  host.identity.be(batch.siteId);
  await host.registry.fresh();
  // The caller has timed out. The Worker answers this text with 503.
  if (host.clock.now() > batch.notAfterMs) throw new Error('no answer within the time of the dry run');
  const rehearsal = new Rehearsal(host, asker);
  return host.turns.rehearse((turn) => {
    const asOf = asOfNow(host, host.view(turn));
    return batch.submissions.map((submission) => {
      const answer = rehearsal.play(turn, { ...batch, submissions: [submission] });
      return JSON.stringify({ ...answer, asOf } satisfies DryRunAnswer);
    });
  });
}

function asOfNow(
  { turns, configuration, journal }: DryRunHost,
  { gatewayId, isLive }: SiteView,
): DryRunAnswer['asOf'] {
  const atMs = journal.snapshot.latestAtMs();
  return {
    sequence: turns.sequence,
    configVersion: configuration.version,
    telemetryAt: atMs === undefined ? null : formatInstant(atMs),
    gateway: gatewayId === undefined ? 'NONE' : isLive(gatewayId) ? 'CONNECTED' : 'AWAY',
  };
}

class Rehearsal {
  readonly #host: DryRunHost;
  readonly #asker: Asker;

  constructor(host: DryRunHost, asker: Asker) {
    this.#host = host;
    this.#asker = asker;
  }

  play(turn: Turn, batch: SubmissionBatch): Omit<DryRunAnswer, 'asOf'> {
    const { submissions, plan, commands, view } = this.#host;
    const before: Before = {
      top: this.#top(turn),
      placed: new Set(
        plan.state.entries.all().flatMap((one) => (isOpen(one, turn.now) ? [one.sequence] : [])),
      ),
      ends: commands.endedIn(turn).length,
    };
    const [played] = submissions.recordBatch(turn, batch);
    if (!played) throw new Error('a command of the dry run could not be judged');
    const { result, judgement, command, received } = played;
    const seen = recording(view(turn), batch.partnerId, received.payloadText, true).view;
    const stages = judgement ? stagesOf(received, judgement, seen, turn.now) : [];
    plan.applyChanges(turn);
    const outcome = judgement?.verdict === 'rejected' ? judgement.stage : 'repeat';
    return {
      acknowledgement: result.acknowledgement,
      ...(result.isRepeated ? { repeated: true as const } : {}),
      decidedBy: command?.stage ?? outcome,
      stages,
      plan:
        judgement?.verdict === 'valid' && command
          ? this.#planOf(turn, { ...judgement, sequence: command.sequence }, before)
          : null,
    };
  }

  #planOf(turn: Turn, accepted: Accepted, before: Before): Planned {
    const { sequence, command } = accepted;
    const onTop = this.#host.owners[command.commandType].isOnTop(turn, sequence);
    const top = this.#top(turn);
    const { state } = this.#host.plan;
    const entry = state.entries.find(sequence);
    const waits = onTop === false && entry !== undefined && isOpen(entry, turn.now);
    const comesMs = entry ? (state.becomesTargetAt(sequence, turn.now) ?? null) : undefined;
    const [first = null, ...others] = this.#plantCommands(turn, accepted, comesMs);
    return {
      onTop,
      displaces: this.#displaced(turn, sequence, before, top),
      waitsBelow: waits ? { level: top.level, commandId: this.#idOf(top.sequence) } : null,
      plantCommand: first,
      ...(others.length > 0 ? { alsoSent: others } : {}),
      resumesAfter: waits ? instantOf(comesMs ?? null) : null,
    };
  }

  /**
   * The commands that ended, and the one that was on top and waits now; of those that the asker does not see only the
   * setpoints that had a place in the plan [C-15.1].
   */
  #displaced(
    turn: Turn,
    own: number,
    { top: before, placed, ends }: Before,
    top: Place,
  ): Planned['displaces'] {
    const ended = this.#host.commands.endedIn(turn).slice(ends);
    const isShown = ({ sequence, partner_id: partnerId }: CommandRow) =>
      isSeen(this.#asker, partnerId) || placed.has(sequence);
    const gone = ended.filter(({ command }) => command.sequence !== own && isShown(command));
    const displaced: Planned['displaces'] = gone.map(({ command, reason }) => ({
      commandId: this.#idOf(command.sequence),
      level: command.sequence === before.sequence ? before.level : levelOf(command),
      // Only the code: the rest of the reason may be about another partner's command, or name one of this dry run.
      ends: /^[A-Z_]+/.exec(reason ?? '')?.[0] ?? 'FAILED',
    }));
    const isBelow =
      before.sequence !== top.sequence && !ended.some((one) => one.command.sequence === before.sequence);
    if (isBelow && before.sequence !== null && before.level !== 'STOP' && before.level !== 'HOLD')
      displaced.unshift({ commandId: this.#idOf(before.sequence), level: before.level, ends: null });
    return displaced;
  }

  /** The MQTT commands of the command. `comesMs`: when a setpoint becomes the target; null: that is not known, or never. */
  #plantCommands(
    turn: Turn,
    { sequence, command, items }: Accepted,
    comesMs: number | null | undefined,
  ): PlantCommand[] {
    const { dispatches, view } = this.#host;
    const kind = kindOf(command);
    const planned = kind.plan(command.payload, items, view(turn));
    const rows = dispatches.rows.ofCommand(sequence);
    if (rows.length > 0) {
      // In the order in which they were planned, because the rows have none.
      const byName = Map.groupBy(rows, ({ device_id: deviceId, action }) => `${deviceId} ${action}`);
      const ordered = planned.flatMap(({ deviceId, action }) => byName.get(`${deviceId} ${action}`) ?? []);
      const own = this.#host.commands.find(sequence) ?? { id: '', payload: '{}' };
      return ordered.map((row) => ({
        ...sentAs(row, turn.now),
        payload: shownPayload(this.#asker, row, own),
      }));
    }
    const { notBeforeMs, expiresAtMs } = windowOf(kind.window(command.payload), turn.now);
    const fromMs = comesMs === undefined ? notBeforeMs : comesMs;
    // Its window ends before what is above it does.
    if (comesMs === null && expiresAtMs !== null && !this.#host.plan.state.emergency) return [];
    return planned.map(({ deviceId, action, payloadText }) => ({
      ...{ deviceId, action, payload: JSON.parse(payloadText) },
      ...{ from: instantOf(fromMs), until: instantOf(expiresAtMs) },
    }));
  }

  #top(turn: Turn): Place {
    const { state } = this.#host.plan;
    return placeOf(state.at(turn.now).target, state);
  }

  #idOf(sequence: number | null): string | null {
    const command = sequence === null ? undefined : this.#host.commands.find(sequence);
    return command && isSeen(this.#asker, command.partner_id) ? command.id : null;
  }
}

function sentAs(row: DispatchRow, now: number): Omit<PlantCommand, 'payload'> {
  const waitsUntilMs = row.not_before_ms > now ? row.not_before_ms : null;
  return {
    ...{ deviceId: row.device_id, action: row.action },
    from: instantOf(row.state === 'WAITING' ? waitsUntilMs : now),
    until: instantOf(row.expires_at_ms),
  };
}

/** Only setpoints have a priority. */
function levelOf({ priority }: CommandRow): PlanLevel | null {
  return LEVELS.find((level) => level === priority) ?? null;
}

function instantOf(epochMs: number | null): string | null {
  return epochMs === null ? null : formatInstant(epochMs);
}
