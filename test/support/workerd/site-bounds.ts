/** Makes the budgets of a Site small for one test, so that a test fills them in seconds and not in years. */
import { afterEach, onTestFinished } from 'vitest';
import { SITE_BOUNDS } from '../../../durable-objects/site/bounds.ts';
import { evictSite } from './site-rows.ts';

type Bounds = { -readonly [Name in keyof typeof SITE_BOUNDS]: number };

const REAL: Bounds = { ...SITE_BOUNDS };

/** Call once per file that changes the bounds without `boundSite`. */
export function restoreBounds(): void {
  afterEach(() => {
    Object.assign(SITE_BOUNDS, REAL);
  });
}

/** Evicts the site, which uses these bounds from its next wake on, until the test has ended. */
export async function boundSite(siteId: string, bounds: Partial<Bounds>): Promise<void> {
  onTestFinished(() => {
    Object.assign(SITE_BOUNDS, REAL);
  });
  Object.assign(SITE_BOUNDS, bounds);
  await evictSite(siteId);
}
