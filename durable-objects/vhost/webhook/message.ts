/** The messages of a webhook, and the secrets that sign them. */
import { formatInstant } from '../../../protocol/ids.ts';
import { TEST_TYPE, VERIFY_TYPE } from '../../../protocol/webhook.ts';
import type { WebhookCopy } from '../../../registry/organization-copy.ts';
import { reasonOf } from '../../object/reason.ts';
import { bytesOf, randomToken } from '../../secrets/base64.ts';
import type { SecretBox } from '../../secrets/secret-box.ts';
import type { JournalEvent } from '../journal/line.ts';
import type { WebhookMessage } from './post.ts';

/** The message that asks a receiver whether it wants messages: its answer must have the challenge [C-15.3]. */
export function verifyMessage(webhookId: string, now: number): WebhookMessage {
  const challenge = randomToken();
  return { ...ownMessage(VERIFY_TYPE, { webhookId, challenge }, now), challenge };
}

export function testMessage(webhookId: string, now: number): WebhookMessage {
  return ownMessage(TEST_TYPE, { webhookId }, now);
}

/** A message that is no event. */
function ownMessage(type: string, data: object, now: number): WebhookMessage {
  const id = `msg_${crypto.randomUUID()}`;
  return { id, type, sequence: null, timestamp: formatInstant(now), data: JSON.stringify(data) };
}

export function messageOf({ kind, sequence, body }: JournalEvent): WebhookMessage {
  const { messageId, timestamp } = JSON.parse(body) as { messageId: string; timestamp: string };
  return { id: messageId, type: kind, sequence, timestamp, data: body };
}

/** The keys that sign: the current one, and for a time after a rotation the one before. */
export function openSecrets(box: SecretBox, webhook: WebhookCopy, now: number): Uint8Array[] {
  const { id, secretSealed, previousSealed, previousUntilMs } = webhook;
  const isPreviousValid = previousSealed !== null && (previousUntilMs ?? 0) > now;
  const open = (text: string) => bytesOf(box.open(`webhook:${id}`, text).replace('whsec_', ''));
  const current = open(secretSealed);
  if (!isPreviousValid) return [current];
  try {
    return [current, open(previousSealed)];
  } catch (error) {
    console.warn('previous secret of a webhook cannot be read, only the current one signs', {
      webhookId: id,
      reason: reasonOf(error),
    });
    return [current];
  }
}
