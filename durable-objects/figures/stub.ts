/** The way to the Figures object: there is one. */
import type { Env } from '../env.ts';

export function figuresOf({ FIGURES }: Pick<Env, 'FIGURES'>) {
  return FIGURES.get(FIGURES.idFromName('figures'));
}
