/**
 * Webhooks [C-12.4]: URLs of an organization to which the events of an API key are posted, as Standard Webhooks 1.0.0
 * says.
 */
import * as z from 'zod';
import { uuid } from './ids.ts';
import { LIMIT } from './limits.ts';
import { EVENT_KINDS } from './routing-keys.ts';
import { plainText } from './text.ts';

/** `PENDING`: the receiver has not answered `webhook.verify` yet. */
export const WEBHOOK_STATUSES = ['PENDING', 'ENABLED', 'DISABLED'] as const;
export type WebhookStatus = (typeof WEBHOOK_STATUSES)[number];

/** Why a webhook is DISABLED. `GONE`: the receiver answered 410; `KEY_ENDED`: its key was revoked or has expired. */
export const WEBHOOK_REASONS = ['GONE', 'ATTEMPTS_FAILED', 'KEY_ENDED'] as const;
export type WebhookReason = (typeof WEBHOOK_REASONS)[number];
/** The reasons that the Vhost decides. */
export type DisabledReason = Exclude<WebhookReason, 'KEY_ENDED'>;

/** Types of messages that are no events. */
export const VERIFY_TYPE = 'webhook.verify';
export const TEST_TYPE = 'webhook.test';

const FIELDS = {
  url: z.string().min(1).max(LIMIT.webhookUrlCharacters),
  types: z
    .array(z.enum(EVENT_KINDS))
    .min(1)
    .max(EVENT_KINDS.length)
    .refine(isWithoutRepeats, 'must not contain a type twice'),
  /** Null: all sites that the key may see. */
  siteIds: z
    .array(uuid)
    .min(1)
    .max(LIMIT.webhookSites)
    .refine(isWithoutRepeats, 'must not contain a site twice')
    .nullable(),
  description: plainText.max(LIMIT.webhookDescriptionCharacters),
};

export const webhookRequest = z.strictObject({
  ...FIELDS,
  keyId: uuid,
  siteIds: FIELDS.siteIds.default(null),
  description: FIELDS.description.default(''),
});
export type WebhookRequest = z.infer<typeof webhookRequest>;

/** Omitted fields stay unchanged. */
export const webhookChange = z.strictObject(FIELDS).partial();
export type WebhookChange = z.infer<typeof webhookChange>;

export const webhookRecord = z.strictObject({
  id: z.string(),
  keyId: z.string(),
  url: z.string(),
  types: z.array(z.enum(EVENT_KINDS)),
  siteIds: z.array(z.string()).nullable(),
  description: z.string(),
  status: z.enum(WEBHOOK_STATUSES),
  /** Null unless DISABLED. */
  statusReason: z.enum(WEBHOOK_REASONS).nullable(),
  statusAt: z.string(),
  /** Until then the secret before the last rotation signs, too. */
  previousSecretUntil: z.string().nullable(),
  createdAt: z.string(),
  updatedAt: z.string(),
});
export type WebhookRecord = z.infer<typeof webhookRecord>;

/** The ceiling of posts a minute that is reached: of the organization, or of the host name of the URL [C-15.3]. */
export const webhookHeld = z.strictObject({
  by: z.enum(['ORGANIZATION', 'HOST']),
  perMinute: z.int(),
  /** When posts go on. */
  until: z.string(),
});
export type WebhookHeld = z.infer<typeof webhookHeld>;

/** How far the events are delivered. */
export const webhookDelivery = z.strictObject({
  /** All events up to this sequence of the journal are delivered, or not wanted. */
  deliveredUpTo: z.int().min(0),
  /** Sequence of the last event of the journal. */
  lastSequence: z.int().min(0),
  /** Failed attempts for the oldest event that is not delivered. */
  failures: z.int().min(0),
  failingSince: z.string().nullable(),
  /** Null if no attempt waits for its time. */
  nextAttemptAt: z.string().nullable(),
  /** Events before this sequence were no longer kept when it was their turn, perhaps of other types; null if all were. */
  missedBefore: z.int().nullable(),
  /** Why its posts wait for the next minute; null: they do not. */
  held: webhookHeld.nullable(),
});
export type WebhookDelivery = z.infer<typeof webhookDelivery>;

/** `delivery` is null if the key has ended, or its Vhost does not know the webhook yet. */
export const webhookItem = webhookRecord.extend({ delivery: webhookDelivery.nullable() });

const secret = z.string();

/** A new webhook and its secret, which is shown only once. */
export const createdWebhook = z.strictObject({ webhook: webhookRecord, secret });

export const rotatedWebhook = z.strictObject({ secret, previousSecretUntil: z.string() });

/** One POST to the receiver. */
export const webhookAttempt = z.strictObject({
  at: z.string(),
  /** The type of an event, `webhook.verify` or `webhook.test`. */
  type: z.string(),
  /** The header `webhook-id`: of an event its messageId. */
  messageId: z.string(),
  /** The sequence of the event in the journal; null for messages that are no events. */
  sequence: z.int().nullable(),
  isDelivered: z.boolean(),
  /** The HTTP status; null without an answer. */
  status: z.int().nullable(),
  durationMs: z.int().min(0),
  /** The first KiB of the answer's body. */
  answer: z.string().nullable(),
  /** Why there was no answer, or why it does not count. */
  error: z.string().nullable(),
});
export type WebhookAttempt = z.infer<typeof webhookAttempt>;

export const webhookAttempts = z.strictObject({
  attempts: z.array(webhookAttempt).max(LIMIT.webhookAttemptsKept),
  held: webhookHeld.nullable(),
});

/**
 * What a Vhost is asked about a webhook. `enable`: deliver again, from where it stopped; `recover`: deliver all events
 * since a time again; `test`: post a message that is no event; `resend`: post one event once more; `attempts`: the last
 * attempts.
 */
export type WebhookQuestion =
  | { kind: 'state' | 'enable' | 'test' | 'attempts' }
  | { kind: 'recover'; sinceMs: number }
  | { kind: 'resend'; sequence: number };

/**
 * `attempts`: oldest first, for the question `attempts`; the one of a `test` or a `resend`. `refused`: the key has ended,
 * the Vhost knows no such webhook, such a post of it is under way, the webhook is not enabled, no event that it gets has
 * the sequence, posts wait for the next minute, or the events were delivered again a moment ago.
 */
export type WebhookAnswer =
  | {
      status: WebhookStatus;
      reason: WebhookReason | null;
      statusAtMs: number;
      delivery: WebhookDelivery;
      attempts: WebhookAttempt[];
    }
  | { refused: 'ended' | 'absent' | 'busy' | 'not-enabled' | 'event' }
  | { refused: 'held'; held: WebhookHeld }
  | { refused: 'recovered'; waitMs: number };

function isWithoutRepeats(values: readonly string[]): boolean {
  return new Set(values).size === values.length;
}
