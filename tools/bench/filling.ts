/** Request to the Worker that fills a site's history. */
export const FILL_PATH = '/bench/fill';

/** `fromMs` and `toMs` are whole hours. `isLast`: this is the last part, after which the object restarts. */
export interface Filling {
  siteId: string;
  fromMs: number;
  toMs: number;
  stepMs: number;
  isLast: boolean;
}

/** The number of signals of a plant with a few assets. */
export const SIGNALS: readonly string[] = Array.from(
  { length: 24 },
  (_none, index) =>
    `ASSET-${index >> 2}/${['powerKw', 'socPercent', 'temperatureCelsius', 'voltage'][index & 3]}`,
);
