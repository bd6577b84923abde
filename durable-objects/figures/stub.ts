/** Returns the stub of the metrics object, of which there is exactly one. */
import type { Env } from '../env.ts';

export function figuresOf({ FIGURES }: Pick<Env, 'FIGURES'>) {
  return FIGURES.get(FIGURES.idFromName('figures'));
}
