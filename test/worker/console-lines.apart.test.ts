/** The end of a run. If it broke, this file would not fail but never end, and the run would stop after some minutes. */
import { runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it } from 'vitest';

const MOST_LINES = 200;

describe('a line that an object writes while the last file of its runtime ends', () => {
  it('does not hold the run: with the console of Vitest, this file would never end', async () => {
    const site = env.SITE.get(env.SITE.idFromName('console-lines'));
    const written = await runInDurableObject(site, async () => {
      let lines = 0;
      return new Promise<number>((resolve) => {
        const timer = setInterval(() => {
          lines += 1;
          console.debug(`An object writes this line ${lines} while the tests end.`);
          if (lines === 2) resolve(lines);
          if (lines === MOST_LINES) clearInterval(timer);
        }, 1);
      });
    });
    expect(written).toBe(2);
  });
});
