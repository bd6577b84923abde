/** Makes the budgets of a Site small for one test, so that a test fills them in seconds and not in years. */
import { afterEach } from 'vitest';
import { SITE_BOUNDS } from '../../../durable-objects/site/bounds.ts';
import { evictSite } from './site-rows.ts';

type Bounds = { -readonly [Name in keyof typeof SITE_BOUNDS]: number };

const REAL: Bounds = { ...SITE_BOUNDS };

/** Call once per file: after each test the bounds are those of the product again. */
export function restoreBounds(): void {
  afterEach(() => {
    Object.assign(SITE_BOUNDS, REAL);
  });
}

/** Evicts the site, which uses these bounds from its next wake on. */
export async function boundSite(siteId: string, bounds: Partial<Bounds>): Promise<void> {
  Object.assign(SITE_BOUNDS, bounds);
  await evictSite(siteId);
}
