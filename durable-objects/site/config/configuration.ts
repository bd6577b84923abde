/**
 * Puts the configuration of an admin or a partner in force: logs it as CONFIG and sends it to the plant
 * [C-2.3], [C-7.9]. This file also has the owner of CONFIG.
 */
import { signableJson } from '../../../protocol/compact-json.ts';
import { SOURCE } from '../../../protocol/envelope.ts';
import { type JsonText, jsonObject } from '../../../protocol/json-text.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { ConfigPatch, SiteConfig } from '../../../protocol/site-config.ts';
import type { Asker } from '../../ask-rpc.ts';
import { uuidAt } from '../../object/timed-uuid.ts';
import type { Turn } from '../../object/turn.ts';
import type { ConfigAnswer, ConfigPut } from '../../rpc.ts';
import { sha256Hex } from '../../secrets/hmac.ts';
import type { Commands } from '../command/commands.ts';
import { configKind, mergedConfig, planConfig } from '../command/kind/config.ts';
import { logEntries } from '../command/log.ts';
import { CommandOwner, type CommandOwnerHost, type Recorded } from '../command/owner.ts';
import type { PlannedDispatch } from '../dispatch/dispatch.ts';
import type { Dispatches } from '../dispatch/dispatches.ts';
import type { DispatchRow } from '../dispatch/rows.ts';
import type { Plan } from '../plan/plan.ts';
import type { Presence } from '../presence/presence.ts';
import type { Schedules } from '../schedule/schedules.ts';
import { ORGANIZATION, partnersSeen } from '../sight.ts';
import type { ViewOf } from '../site-view.ts';
import type { ConfigurationState } from './state.ts';

export interface ConfigurationHost {
  state: ConfigurationState;
  commands: Commands;
  dispatches: Dispatches;
  plan: Plan;
  schedules: Schedules;
  view: ViewOf;
  presence: Presence;
}

export class Configuration {
  readonly state: ConfigurationState;
  readonly #host: ConfigurationHost;

  constructor(host: ConfigurationHost) {
    this.#host = host;
    this.state = host.state;
  }

  /** Differs between different configurations; the entity tag without its quotes. */
  get version(): string {
    return this.answer().etag.slice(1, -1);
  }

  answer(): ConfigAnswer {
    return answerOf(this.state.config);
  }

  /** JSON of `SiteConfigSnapshot` (spec: Site configuration snapshot). */
  snapshot(siteId: string, asker: Asker, now: number): JsonText {
    const { commands, schedules } = this.#host;
    const { constraints, fallback, operatingMode } = this.state.config;
    return jsonObject({
      ...{ siteId, constraints, fallback, operatingMode },
      modeOverride: this.state.overrideFor(asker, now),
      activeSchedule: schedules.active(siteId, asker),
      pendingCommands: logEntries(
        siteId,
        commands.rows.open(LIMIT.pendingCommands, partnersSeen(asker)),
        asker,
      ),
    });
  }

  /** Checks and stores an admin's configuration in one turn, so that no other change comes between. */
  put(turn: Turn, put: ConfigPut): ConfigAnswer {
    const before = this.answer();
    if (put.ifMatch && !put.ifMatch.includes(before.etag)) return { ...before, refused: 'stale' };
    const { hardLimits = before.config.hardLimits } = put.config;
    const isOther = JSON.stringify(hardLimits) !== JSON.stringify(before.config.hardLimits);
    if (isOther && !put.mayChangeHardLimits) return { ...before, refused: 'hard-limits' };
    const config: SiteConfig = { ...put.config, hardLimits };
    const [planned] = planConfig(config, this.#host.view(turn).gatewayId);
    const logged = this.#log(turn, config, put.source, planned !== undefined);
    this.apply(turn, config, logged);
    if (planned) this.#send(turn, logged.sequence, planned);
    else this.state.noteConfigured(turn, null);
    return answerOf(config);
  }

  /** Puts a configuration in force: ends what no longer fits, and older configurations that are still under way. */
  apply(turn: Turn, config: SiteConfig, by: { sequence: number }): void {
    const { commands, dispatches, plan, presence } = this.#host;
    const { operatingMode } = this.state.config;
    this.state.configure(turn, config);
    const isOverridden = this.state.activeOverride(turn.now) !== null;
    if (config.operatingMode !== operatingMode && !isOverridden) plan.modeChanged(turn);
    for (const { command_sequence: sequence } of dispatches.rows.ofOwner('CONFIG')) {
      if (sequence !== null && sequence !== by.sequence) {
        commands.supersede(turn, sequence, by.sequence);
      }
    }
    plan.rejudge(turn);
    // Whether the fallback is engaged depends on the configuration.
    turn.send(() => presence.noteChange());
    dispatches.recheckWaiting(turn);
  }

  /** Sends configuration and open schedules to a new serving gateway, except those already in flight. */
  sendTo(turn: Turn, gatewayId: string): void {
    const { dispatches, schedules } = this.#host;
    this.state.noteConfigured(turn, gatewayId);
    const open = dispatches.rows.all();
    const { config } = this.state;
    const [planned] = planConfig(config, gatewayId);
    if (planned && dispatches.rows.ofOwner('CONFIG').length === 0)
      this.#send(turn, this.#log(turn, config, SOURCE, true).sequence, planned);
    for (const schedule of schedules.rows.open()) {
      const isInFlight = open.some(({ command_sequence: sequence }) => sequence === schedule.sequence);
      if (!isInFlight) schedules.send(turn, schedule, gatewayId);
    }
  }

  /**
   * Adds a log row for a configuration that no partner sent, so it has no API key. The row is COMPLETED at once if there
   * is no gateway to send the configuration to.
   */
  #log(turn: Turn, config: SiteConfig, source: string, isSent: boolean): { sequence: number } {
    const id = uuidAt(turn.now);
    const sequence = this.#host.commands.rows.insert(turn, {
      id,
      key_id: '',
      key_prefix: '',
      partner_id: ORGANIZATION,
      message_id: id,
      command_type: 'CONFIG',
      routing_key: '',
      status: isSent ? 'PENDING' : 'COMPLETED',
      target: 'SITE',
      // The log shows the configuration as partners see it, without hardLimits.
      payload: signableJson({ ...config, hardLimits: undefined }),
      source,
      created_at_ms: turn.now,
      acked_at_ms: turn.now,
      finished_at_ms: isSent ? null : turn.now,
    });
    return { sequence };
  }

  #send(turn: Turn, sequence: number, planned: PlannedDispatch): void {
    const { commands, dispatches } = this.#host;
    const from = { owner: 'CONFIG' as const, commandSequence: sequence };
    const { state } = dispatches.create(turn, from, planned, { notBeforeMs: 0, expiresAtMs: null });
    if (state === 'SENT') commands.rows.markDispatched(turn, sequence);
    else dispatches.makeRoom(turn);
  }
}

/** Always in the same field order, so that equal configurations have equal tags. */
function answerOf({ constraints, hardLimits, fallback, operatingMode }: SiteConfig): ConfigAnswer {
  const config = { constraints, hardLimits, fallback, operatingMode };
  return { config, etag: `"${sha256Hex(JSON.stringify(config)).slice(0, 16)}"` };
}

/** A partner's configuration is in force when it is recorded; the ack says that the gateway has it [C-7.9]. */
export class ConfigOwner extends CommandOwner<'CONFIG'> {
  override readonly survivesEmergency = true;
  override readonly mayReachAnother = true;
  readonly #configuration: Configuration;

  constructor(host: CommandOwnerHost & { configuration: Configuration }) {
    super('CONFIG', configKind, host);
    this.#configuration = host.configuration;
  }

  override recorded(turn: Turn, command: Recorded<ConfigPatch>): void {
    super.recorded(turn, command);
    this.#configuration.apply(turn, mergedConfig(command.payload, command.view.config), command);
  }

  override sending(turn: Turn, { device_id: deviceId }: DispatchRow): void {
    this.#configuration.state.noteConfigured(turn, deviceId);
  }
}
