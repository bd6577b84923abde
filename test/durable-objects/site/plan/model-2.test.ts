/** The plan of a site compared with a small model, part two of two: see `plan-walk.ts` [C-7.7]. */
import { walkModel } from '#workerd/plan-walk.ts';

walkModel(1);
