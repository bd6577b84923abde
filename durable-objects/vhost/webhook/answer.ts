/** Answers the organization's questions about a webhook [C-12.4]. */
import { formatInstant } from '../../../protocol/ids.ts';
import type { WebhookAnswer, WebhookAttempt, WebhookQuestion } from '../../../protocol/webhook.ts';
import { sequenceBefore } from '../journal/since.ts';
import type { VhostParts } from '../parts.ts';
import type { Endpoint } from './endpoint.ts';

export async function answerWebhook(
  vhost: VhostParts,
  id: string,
  question: WebhookQuestion,
): Promise<WebhookAnswer> {
  const { key, webhooks, organization, clock } = vhost;
  if (!key.record || vhost.hasEnded()) return { refused: 'ended' };
  // A webhook that was created or changed a moment ago.
  await organization.refresh();
  const live = webhooks.get(id);
  if (!live) return { refused: 'absent' };
  const { endpoint, log } = live;
  let attempts: WebhookAttempt[] = [];
  if (question.kind === 'attempts') attempts = log.all();
  if (question.kind === 'test') {
    const attempt = await webhooks.test(id);
    if (!attempt) return { refused: 'busy' };
    attempts = [attempt];
  }
  if (question.kind === 'enable') endpoint.enable(clock.now());
  if (question.kind === 'recover') endpoint.recover(sequenceBefore(vhost.journal, question.sinceMs));
  if (question.kind === 'enable' || question.kind === 'recover') webhooks.changed(id);
  return { ...stateOf(endpoint, vhost.journal.last), attempts };
}

function stateOf(endpoint: Endpoint, lastSequence: number) {
  const { disabled, statusAtMs, cursor, failures, failingSinceMs, nextAtMs, missedBefore } = endpoint.state;
  const instantOf = (atMs: number | null) => (atMs === null ? null : formatInstant(atMs));
  return {
    status: endpoint.status,
    reason: disabled,
    statusAtMs,
    delivery: {
      deliveredUpTo: cursor,
      lastSequence,
      failures,
      failingSince: instantOf(failingSinceMs),
      nextAttemptAt: instantOf(nextAtMs),
      missedBefore,
    },
  };
}
