/** Commands over HTTPS, of partners and of people [C-13.5]. */
import * as z from 'zod';
import { isDeeperThan } from './compact-json.ts';
import { acknowledgement } from './event.ts';
import { LIMIT } from './limits.ts';
import { isRoutingKey, ROUTING_KEY_RULE } from './routing-keys.ts';
import { plainObject, plainText } from './text.ts';
import { utf8Length } from './utf8.ts';

const LONE_SURROGATE = /\p{Cs}/u;

/** A publish of a partner: the text that AMQP would carry. */
export const publishRequest = z.strictObject({
  routingKey: z.string().refine(isRoutingKey, ROUTING_KEY_RULE),
  message: z
    .string()
    .min(1)
    .refine(
      (text) => utf8Length(text) <= LIMIT.amqpBodyBytes,
      `must have at most ${LIMIT.amqpBodyBytes} bytes`,
    )
    .refine((text) => !LONE_SURROGATE.test(text), 'must not have lone surrogates'),
});

/** The families that people send. */
export const PERSON_FAMILIES = ['site-setpoint', 'device', 'mode', 'emergency'] as const;

/** A command of a person; the same `idempotencyKey` for the same plant is the same command. */
export const personCommandRequest = z.strictObject({
  family: z.enum(PERSON_FAMILIES),
  payload: plainObject(LIMIT.amqpBodyBytes).refine(
    (payload) => !isDeeperThan(JSON.stringify(payload), LIMIT.envelopeDepth),
    `must not be nested deeper than ${LIMIT.envelopeDepth}`,
  ),
  idempotencyKey: plainText.min(1).max(LIMIT.nameCharacters),
});

/** A person's command as a dry run: `idempotencyKey` is optional. */
export const personDryRunRequest = personCommandRequest.partial({ idempotencyKey: true });

export const commandAnswer = z.strictObject({
  acknowledgement,
  /** The id of the command in the command log. */
  commandId: z.string(),
  /** An earlier request got this acknowledgement first. */
  repeated: z.literal(true).optional(),
});
export type CommandAnswer = z.infer<typeof commandAnswer>;

/**
 * Why a publish over HTTPS has no acknowledgement. `ended`: the key has ended, or has no Vhost; `elsewhere`: the message
 * names another site; `paced`: the key's publish rate is exceeded; `unstored`: it is not known to be recorded.
 */
export interface PublishRefusal {
  refused: 'ended' | 'forbidden' | 'malformed' | 'elsewhere' | 'paced' | 'unstored';
  text?: string;
}
