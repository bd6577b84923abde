/** The way to the Figures object. */
import type { Env } from '../env.ts';
import { FIGURES_NAME } from './report.ts';

export function figuresOf({ FIGURES }: Pick<Env, 'FIGURES'>) {
  return FIGURES.get(FIGURES.idFromName(FIGURES_NAME));
}
