/** An admin's configuration [C-2.3]: in force with its turn, logged as CONFIG, told to the plant as far as its mode goes. */
import { signableJson } from '../../../protocol/compact-json.ts';
import type { SiteConfig } from '../../../protocol/site-config.ts';
import type { Turn } from '../../object/turn.ts';
import type { ConfigAnswer, ConfigPut } from '../../rpc.ts';
import { sha256Hex } from '../../secrets/hmac.ts';
import type { SiteParts } from '../parts.ts';

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
  site.configuration.configure(turn, config);
  if (config.operatingMode !== before.config.operatingMode) tellMode(turn, site);
  const id = crypto.randomUUID();
  site.commands.insert(turn, {
    id,
    key_id: '',
    key_prefix: '',
    message_id: id,
    command_type: 'CONFIG',
    routing_key: '',
    status: 'COMPLETED',
    target: 'SITE',
    // As partners see the configuration: hardLimits are none of theirs.
    payload: signableJson({ ...config, hardLimits: undefined }),
    source: put.source,
    created_at_ms: turn.now,
    acked_at_ms: turn.now,
    finished_at_ms: turn.now,
  });
  return answerOf(config);
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
