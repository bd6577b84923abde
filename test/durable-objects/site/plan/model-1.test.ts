/** The plan of a site against a small model of it, one walk of two: see `plan-walk.ts` [C-7.7]. */
import { walkModel } from '#workerd/plan-walk.ts';

walkModel(0);
