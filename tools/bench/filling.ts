/** What a bench asks of the Worker that fills a site's past. */
export const FILL_PATH = '/bench/fill';

/** Whole hours; `isLast`: the object starts over afterwards. */
export interface Filling {
  siteId: string;
  fromMs: number;
  toMs: number;
  stepMs: number;
  isLast: boolean;
}

/** As many as a plant of a few assets has. */
export const SIGNALS: readonly string[] = Array.from(
  { length: 24 },
  (_none, index) =>
    `ASSET-${index >> 2}/${['powerKw', 'socPercent', 'temperatureCelsius', 'voltage'][index & 3]}`,
);
