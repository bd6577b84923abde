/** What the OpenAPI document says about the fields of webhooks. */

const TIME = 'ISO 8601 in UTC';

export const WEBHOOK_FIELDS: Readonly<Record<string, string>> = {
  attempts: 'The attempts, newest first.',
  deliveredUpTo: 'All events up to this sequence are delivered, or of other types or sites.',
  delivery: 'How far the events are delivered; null: the key has ended, or does not know the webhook yet.',
  failingSince: `When the attempts for the oldest event began to fail, ${TIME}; null: they do not.`,
  failures: 'Failed attempts in a row for the oldest event that is not delivered.',
  held: 'Why the posts wait for the next minute: the ceiling that is reached; null: they do not wait.',
  isDelivered:
    'Whether the receiver answered with 2xx, and to webhook.verify with the challenge of the message.',
  lastSequence: 'The sequence of the last event of the key.',
  missedBefore:
    'Events before this sequence were no longer kept when it was their turn, perhaps of other types; null: all were kept.',
  nextAttemptAt: `When the next attempt is due, ${TIME}; null: none waits.`,
  previousSecretUntil: `Until this time the previous secret signs, too, ${TIME}; null: only the present secret signs.`,
  statusAt: `When the status changed, ${TIME}.`,
  statusReason:
    'Why it is DISABLED: GONE (the receiver answered 410), ATTEMPTS_FAILED, or KEY_ENDED; else null.',
  webhook: 'The record of the webhook.',
};
