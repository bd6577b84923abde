/** Budgets of a Site made small for one test: what it takes a plant years to fill is filled for real, in seconds. */
import { afterEach } from 'vitest';
import { SITE_BOUNDS } from '../../../durable-objects/site/bounds.ts';
import { evictSite } from './site-rows.ts';

type Bounds = { -readonly [Name in keyof typeof SITE_BOUNDS]: number };

const REAL: Bounds = { ...SITE_BOUNDS };

/** Call once per file: after each test the bounds are the product's own again. */
export function restoreBounds(): void {
  afterEach(() => {
    Object.assign(SITE_BOUNDS, REAL);
  });
}

/** From the next wake on, which this brings about, the site keeps to these. */
export async function boundSite(siteId: string, bounds: Partial<Bounds>): Promise<void> {
  Object.assign(SITE_BOUNDS, bounds);
  await evictSite(siteId);
}
