/** Secrets of webhooks, what their Vhosts answer about them, and the mails about those that were disabled [C-12.4]. */

import { reasonOf } from '../../durable-objects/object/reason.ts';
import { objectNamed } from '../../durable-objects/object-id.ts';
import { base64 } from '../../durable-objects/secrets/base64.ts';
import { countOfVersions, SecretBox } from '../../durable-objects/secrets/secret-box.ts';
import type { WebhookAnswer, WebhookQuestion } from '../../protocol/webhook.ts';
import type { RegistryChange } from '../../registry/changes.ts';
import { nameOf, REASON_TEXTS } from '../../registry/webhook-status.ts';
import {
  adminsOf,
  dueWebhookMails,
  queueWebhookMails,
  replaceSealed,
  sealedWebhooks,
} from '../../registry/webhooks.ts';
import type { Env } from '../env.ts';
import { mailRow } from '../mail/outbox.ts';
import { webhookDisabledMail } from '../mail/texts.ts';

const SECRET_BYTES = 32;
const MAILS_PER_ROUND = 100;

/** A new secret, as Standard Webhooks writes it. */
export function newSecret(): string {
  return `whsec_${base64(crypto.getRandomValues(new Uint8Array(SECRET_BYTES)))}`;
}

/** Seals the secret of a webhook for its Vhost. */
export function sealSecret(env: Env, id: string, secret: string): string {
  return new SecretBox(env.DATA_KEYS).seal(`webhook:${id}`, secret);
}

/**
 * Seals again the secrets of these keys' webhooks that an older data key sealed [C-14.7]. Returns the changes, which the
 * caller announces, and how many secrets each version of the data keys seals.
 */
export async function sealWebhooksAgain(
  env: Env,
  keyIds: readonly string[],
  now: number,
): Promise<{ changes: RegistryChange[]; versions: Record<string, number> }> {
  const box = new SecretBox(env.DATA_KEYS);
  const changes: RegistryChange[] = [];
  const sealed: string[] = [];
  let unreadable = 0;
  for (const row of await sealedWebhooks(env.DB, keyIds)) {
    try {
      const again = (text: string) => sealSecret(env, row.id, box.open(`webhook:${row.id}`, text));
      const previous = (row.previousUntilMs ?? 0) > now ? row.previousSealed : null;
      const isOld =
        box.isOld(row.secretSealed) || (row.previousSealed !== null && box.isOld(row.previousSealed));
      const current = isOld
        ? {
            secretSealed: again(row.secretSealed),
            previousSealed: previous === null ? null : again(previous),
            previousUntilMs: previous === null ? null : row.previousUntilMs,
          }
        : row;
      if (isOld) changes.push(await replaceSealed(env.DB, row, current, now));
      sealed.push(current.secretSealed, ...(current.previousSealed === null ? [] : [current.previousSealed]));
    } catch (error) {
      unreadable += 1;
      console.error('secret of a webhook not sealed again, it counts as one unreadable value', {
        webhookId: row.id,
        reason: reasonOf(error),
      });
    }
  }
  const versions = { ...countOfVersions(sealed), ...(unreadable > 0 ? { unreadable } : {}) };
  return { changes, versions };
}

/** Asks the Vhost of the webhook's key. */
export async function askVhost(
  env: Env,
  { id, keyId }: { id: string; keyId: string },
  question: WebhookQuestion,
): Promise<WebhookAnswer> {
  return await objectNamed(env, 'VHOST', keyId).askWebhook(id, question);
}

/** Mails the admins of the organizations whose webhooks were disabled. */
export async function mailDisabledWebhooks(env: Env, now: number): Promise<void> {
  const due = await dueWebhookMails(env.DB, MAILS_PER_ROUND);
  for (const [organizationId, own] of Map.groupBy(due, ({ row }) => row.organizationId)) {
    const admins = await adminsOf(env.DB, organizationId);
    for (const { row, organization } of own) {
      const webhook = nameOf(row.url, row.description);
      const why = REASON_TEXTS[row.statusReason ?? 'ATTEMPTS_FAILED'];
      const mails = admins.flatMap(({ id: userId, email }) => {
        const mail = webhookDisabledMail(email, { organization, webhook, why, id: row.id });
        return mailRow(env, mail, { organizationId, userId, isOfPlatform: true }, now) ?? [];
      });
      await queueWebhookMails(env.DB, row, mails);
    }
  }
}
