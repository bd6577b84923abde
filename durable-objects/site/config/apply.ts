/** A configuration comes into force, an admin's or a partner's: logged as CONFIG, and told to the plant [C-2.3], [C-7.9]. */
import { signableJson } from '../../../protocol/compact-json.ts';
import { SOURCE } from '../../../protocol/envelope.ts';
import type { SiteConfig } from '../../../protocol/site-config.ts';
import type { Turn } from '../../object/turn.ts';
import type { ConfigAnswer, ConfigPut } from '../../rpc.ts';
import { sha256Hex } from '../../secrets/hmac.ts';
import { planConfig } from '../command/kind/config.ts';
import type { PlannedDispatch } from '../command/kind/kind.ts';
import { failCommand } from '../dispatch/ends.ts';
import { dispatch } from '../dispatch/send-command.ts';
import { makeRoom, recheckWaiting } from '../dispatch/waiting.ts';
import type { SiteParts } from '../parts.ts';
import { rejudge } from '../plan/settle.ts';
import { tellSchedule } from '../schedule/lifecycle.ts';

export function configAnswer(site: SiteParts): ConfigAnswer {
  return answerOf(site.configuration.config);
}

/** Judges and puts it: nobody else's change comes between. */
export function putConfig(turn: Turn, site: SiteParts, put: ConfigPut): ConfigAnswer {
  const before = configAnswer(site);
  if (put.ifMatch && !put.ifMatch.includes(before.etag)) return { ...before, refused: 'stale' };
  const { hardLimits = before.config.hardLimits } = put.config;
  const isOther = JSON.stringify(hardLimits) !== JSON.stringify(before.config.hardLimits);
  if (isOther && !put.mayChangeHardLimits) return { ...before, refused: 'hard-limits' };
  const config: SiteConfig = { ...put.config, hardLimits };
  const [planned] = planConfig(config, site.facts(turn).gatewayId);
  const logged = logConfig(turn, site, config, put.source, planned !== undefined);
  applyConfig(turn, site, config, logged);
  if (planned) tellGateway(turn, site, logged.sequence, planned);
  else site.configuration.noteAgreed(turn, null);
  return answerOf(config);
}

/** A row of the log that no key sent; it is over at once where there is nobody to tell. */
function logConfig(
  turn: Turn,
  site: SiteParts,
  config: SiteConfig,
  source: string,
  isTold: boolean,
): { id: string; sequence: number } {
  const id = crypto.randomUUID();
  const sequence = site.commands.insert(turn, {
    id,
    key_id: '',
    key_prefix: '',
    message_id: id,
    command_type: 'CONFIG',
    routing_key: '',
    status: isTold ? 'PENDING' : 'COMPLETED',
    target: 'SITE',
    // As partners see the configuration: hardLimits are none of theirs.
    payload: signableJson({ ...config, hardLimits: undefined }),
    source,
    created_at_ms: turn.now,
    acked_at_ms: turn.now,
    finished_at_ms: isTold ? null : turn.now,
  });
  return { id, sequence };
}

function tellGateway(turn: Turn, site: SiteParts, sequence: number, planned: PlannedDispatch): void {
  const { state } = dispatch(turn, site, sequence, planned, { notBeforeMs: 0, expiresAtMs: null });
  if (state === 'SENT') site.commands.markDispatched(turn, sequence);
  else makeRoom(turn, site);
}

/**
 * A gateway that serves in another's place, or the first behind what was put, is told all that the plant keeps for when
 * nobody reaches it, but for what is on its way to it.
 */
export function tellAgreed(turn: Turn, site: SiteParts, gatewayId: string): void {
  site.configuration.noteAgreed(turn, gatewayId);
  const open = site.dispatches.all();
  const { config } = site.configuration;
  const [planned] = planConfig(config, gatewayId);
  if (planned && !open.some(({ action }) => action === 'CONFIG_SET'))
    tellGateway(turn, site, logConfig(turn, site, config, SOURCE, true).sequence, planned);
  for (const schedule of site.schedules.open()) {
    const isOnItsWay = open.some(({ command_sequence: sequence }) => sequence === schedule.sequence);
    if (!isOnItsWay) tellSchedule(turn, site, schedule, gatewayId);
  }
}

/** In force from here on: what no longer fits ends, and no older configuration is told any more. */
export function applyConfig(
  turn: Turn,
  site: SiteParts,
  config: SiteConfig,
  by: { id: string; sequence: number },
): void {
  const { operatingMode } = site.configuration.config;
  site.configuration.configure(turn, config);
  if (config.operatingMode !== operatingMode) tellMode(turn, site);
  for (const { action, command_sequence: sequence } of site.dispatches.all()) {
    if (action !== 'CONFIG_SET' || sequence === by.sequence) continue;
    failCommand(turn, site, sequence, `SUPERSEDED by ${by.id}`);
  }
  rejudge(turn, site);
  // Whether its fallback is engaged, by what is agreed now.
  turn.send(() => site.presence.noteChange());
  recheckWaiting(turn, site);
}

/** A mode says what the plant does where nothing else stands: whoever runs by the mode is told the new one. */
function tellMode(turn: Turn, site: SiteParts): void {
  const { told } = site.plan;
  if (site.configuration.activeOverride(turn.now)) return;
  if (!told || told.by === 'mode') site.plan.forgetTold(turn);
}

/** In one order of its fields, whoever put it: the tag tells what they hold. */
function answerOf({ constraints, hardLimits, fallback, operatingMode }: SiteConfig): ConfigAnswer {
  const config = { constraints, hardLimits, fallback, operatingMode };
  return { config, etag: `"${sha256Hex(JSON.stringify(config)).slice(0, 16)}"` };
}
