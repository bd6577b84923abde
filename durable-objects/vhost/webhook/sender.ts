/** Signs a message of a webhook and posts it. Whatever goes wrong, an attempt has an outcome. */

import type { WebhookCopy } from '../../../registry/organization-copy.ts';
import type { Calls } from '../../object/calls.ts';
import type { Clock } from '../../object/clock.ts';
import { reasonOf } from '../../object/reason.ts';
import type { SecretBox } from '../../secrets/secret-box.ts';
import { openSecrets } from './message.ts';
import { notPosted, type Posted, post, type WebhookMessage } from './post.ts';

const INTERNAL_PAUSE_MS = 60_000;

export interface SenderHost {
  clock: Clock;
  calls: Calls;
  secrets: SecretBox;
  /** What is wrong with a URL in this deployment; undefined if nothing is. */
  urlFault(url: string): string | undefined;
  fetch(url: string, init: RequestInit): Promise<Response>;
}

export async function send(
  { clock, calls, secrets, urlFault, fetch }: SenderHost,
  webhook: WebhookCopy,
  message: WebhookMessage,
): Promise<Posted> {
  // The deployment may allow less than when the webhook was created.
  const fault = urlFault(webhook.url);
  if (fault !== undefined) return notPosted(`url: ${fault}`);
  const host = {
    now: () => clock.now(),
    until: <Value>(deadlineMs: number, work: PromiseLike<Value>) => calls.until(deadlineMs, work),
    fetch,
  };
  try {
    return await post(host, webhook.url, openSecrets(secrets, webhook, clock.now()), message);
  } catch (error) {
    console.error('webhook not posted, the next attempt follows after a pause', {
      webhookId: webhook.id,
      reason: reasonOf(error),
    });
    // Not the receiver's fault, so it uses up no attempt.
    const failed = notPosted('internal error: the operator of the platform sees its cause');
    return { ...failed, laterMs: INTERNAL_PAUSE_MS };
  }
}
