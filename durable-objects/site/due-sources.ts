/** All that a site does by itself, in the order in which one alarm does it. */
import type { Env } from '../env.ts';
import { Reporter } from '../figures/reporter.ts';
import type { DueSource } from '../object/agenda.ts';
import { tokenAgenda } from './device/token-refresh.ts';
import { dispatchAgenda } from './dispatch/execution.ts';
import type { SiteParts } from './parts.ts';
import { planAgenda } from './plan/settle.ts';

/** `onChange`: due times have changed by themselves. */
export function dueSources(
  site: SiteParts,
  ctx: DurableObjectState,
  env: Env,
  onChange: () => void,
): DueSource[] {
  const keepAlive = (work: Promise<void>) => ctx.waitUntil(work);
  return [
    site.sessions,
    site.secrets,
    site.carriedNonces,
    tokenAgenda(site, { tokenKeys: env.TOKEN_KEYS, keepAlive }),
    planAgenda(site),
    dispatchAgenda(site),
    site.presence,
    site.alerts,
    site.feed,
    site.calls,
    site.outbox,
    site.store,
    site.retention,
    new Reporter(ctx, env, figuresOf(site), onChange),
  ];
}

/** A sign of work alone: what it counts it tells by itself. */
function figuresOf({ clock }: SiteParts) {
  return { class: 'Site' as const, clock, mark: () => undefined, report: () => ({}) };
}
