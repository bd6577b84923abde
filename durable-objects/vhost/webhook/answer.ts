/** Answers the organization's questions about a webhook [C-12.4]. */
import { formatInstant } from '../../../protocol/ids.ts';
import type {
  WebhookAnswer,
  WebhookAttempt,
  WebhookHeld,
  WebhookQuestion,
} from '../../../protocol/webhook.ts';
import type { EventJournal } from '../journal/journal.ts';
import { matches } from '../journal/line.ts';
import { sequenceBefore } from '../journal/since.ts';
import type { VhostParts } from '../parts.ts';
import type { Held } from './allowance.ts';
import type { Endpoint } from './endpoint.ts';
import { messageOf, testMessage } from './message.ts';
import type { WebhookMessage } from './post.ts';

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
  if (question.kind === 'test' || question.kind === 'resend') {
    // A receiver gets no event before it has agreed.
    if (question.kind === 'resend' && endpoint.status !== 'ENABLED') return { refused: 'not-enabled' };
    const message =
      question.kind === 'resend'
        ? eventOf(vhost.journal, endpoint, question.sequence)
        : testMessage(id, clock.now());
    if (!message) return { refused: 'event' };
    const attempt = await webhooks.postApart(id, message);
    if (attempt === 'busy') return { refused: 'busy' };
    if ('untilMs' in attempt) return { refused: 'held', held: heldOf(attempt) };
    attempts = [attempt];
  }
  if (question.kind === 'enable') endpoint.enable(clock.now());
  if (question.kind === 'recover') {
    const waitMs = endpoint.recoverableAtMs - clock.now();
    if (waitMs > 0) return { refused: 'recovered', waitMs };
    endpoint.recover(sequenceBefore(vhost.journal, question.sinceMs), clock.now());
  }
  if (question.kind === 'enable' || question.kind === 'recover') webhooks.changed(id);
  return { ...stateOf(endpoint, vhost.journal.last, webhooks.held(id)), attempts };
}

function heldOf({ by, perMinute, untilMs }: Held): WebhookHeld {
  return { by, perMinute, until: formatInstant(untilMs) };
}

/** The event with this sequence as a message; undefined: it is not kept, or the webhook does not get it. */
function eventOf(journal: EventJournal, { webhook }: Endpoint, sequence: number): WebhookMessage | undefined {
  const [event] = journal.read({ after: sequence - 1, limit: 1 }).events;
  if (event?.sequence !== sequence) return undefined;
  const { types: kinds, siteIds } = webhook;
  return matches({ kinds, siteIds: siteIds ?? undefined }, event) ? messageOf(event) : undefined;
}

function stateOf(endpoint: Endpoint, lastSequence: number, held: Held | undefined) {
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
      held: held ? heldOf(held) : null,
    },
  };
}
