/** Fields that payloads of several kinds have [C-7.4], [C-7.6]. */
import { z } from 'zod';
import { LIMIT } from './limits.ts';

/** kW or kWh; -0 is read as 0. */
export const quantity = z
  .number()
  .min(-LIMIT.commandMagnitude)
  .max(LIMIT.commandMagnitude)
  .transform((value) => value + 0);

export const positiveQuantity = z
  .number()
  .min(0)
  .max(LIMIT.commandMagnitude)
  .transform((value) => value + 0);

/** Characters, not UTF-16 units. */
export const reason = z
  .string()
  .refine(
    (text) => [...text].length <= LIMIT.commandReasonCharacters,
    `at most ${LIMIT.commandReasonCharacters} characters`,
  );
