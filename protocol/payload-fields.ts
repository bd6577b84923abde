/** Fields that several command payloads share [C-7.4], [C-7.6]. */
import * as z from 'zod';
import { LIMIT } from './limits.ts';
import { plainText } from './text.ts';

/** A number within bounds; -0 becomes 0. */
const number = (least: number, most: number) =>
  z
    .number()
    .min(least)
    .max(most)
    .transform((value) => value + 0);

/** kW or kWh. */
export const quantity = number(-LIMIT.commandMagnitude, LIMIT.commandMagnitude);
export const positiveQuantity = number(0, LIMIT.commandMagnitude);
export const percentage = number(0, 100);

/** The limit counts characters, not UTF-16 units. */
export const reason = plainText
  .refine(
    (text) => [...text].length <= LIMIT.commandReasonCharacters,
    `must be at most ${LIMIT.commandReasonCharacters} characters`,
  )
  .meta({ maxLength: LIMIT.commandReasonCharacters });
