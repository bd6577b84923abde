/** All that a site does by itself, in the order in which one alarm does it. */
import type { DueSource } from '../object/agenda.ts';
import { type TokenSource, tokenAgenda } from './device/token-refresh.ts';
import { dispatchAgenda } from './dispatch/execution.ts';
import type { SiteParts } from './parts.ts';
import { planAgenda } from './plan/settle.ts';

export function dueSources(site: SiteParts, tokens: TokenSource): DueSource[] {
  return [
    site.sessions,
    site.secrets,
    site.carriedNonces,
    tokenAgenda(site, tokens),
    planAgenda(site),
    dispatchAgenda(site),
    site.presence,
    site.alerts,
    site.feed,
    site.calls,
    site.outbox,
    site.store,
    site.retention,
  ];
}
