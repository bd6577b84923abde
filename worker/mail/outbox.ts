/**
 * The outbox of mail [C-11.1]. A mail is a row that is written together with the change that the mail is
 * about; it is sent after the request was answered. Sending is retried with longer and longer pauses. After
 * the last failed try the mail is deleted, and an audit event is written.
 */
import type { Context } from 'hono';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import type { AuditEntry } from '../../durable-objects/registry/entries.ts';
import { SecretBox } from '../../durable-objects/secrets/secret-box.ts';
import type { AppContext, Env } from '../env.ts';
import { claimMails, dropMail, giveUpMail, type MailRow, postponeMail } from '../registry/mails.ts';
import type { Mail } from './texts.ts';
import { type Transport, transportOf } from './transport.ts';

const MINUTE_MS = 60_000;
const PAUSES_MS = [1, 5, 30, 120, 360].map((minutes) => minutes * MINUTE_MS);
/** Maximum number of mails in one round. If a round takes longer than a minute, the next one starts beside it. */
const MAILS_PER_ROUND = 40;
const MAILS_AT_ONCE = 4;

export function isMailOn(env: Env): boolean {
  return transportOf(env) !== undefined;
}

/**
 * The origin in the links of mails: only the configured public URL, never the host of a request, because a
 * request can name any host.
 */
export function mailOrigin({ PUBLIC_URL }: Pick<Env, 'PUBLIC_URL'>): string | undefined {
  return PUBLIC_URL === undefined ? undefined : new URL(PUBLIC_URL).origin;
}

/**
 * The row of a mail, for `queuedMail`; undefined while mail is off. `about`: the organization that gets an audit
 * event if the mail cannot be sent; or the user, whom an event of no organization then names.
 */
export function mailRow(
  env: Env,
  mail: Mail,
  about: { organizationId?: string; userId?: string },
  now: number,
): MailRow | undefined {
  if (!isMailOn(env)) return undefined;
  const id = crypto.randomUUID();
  return {
    id,
    kind: mail.kind,
    sealed: new SecretBox(env.DATA_KEYS).seal(purpose(id), JSON.stringify(mail)),
    organizationId: about.organizationId ?? null,
    userId: about.userId ?? null,
    failures: 0,
    dueAtMs: now,
    createdAtMs: now,
  };
}

/** Sends the due mails after the request was answered. */
export function sendQueued(c: Context<AppContext>): void {
  if (!isMailOn(c.env)) return;
  const sent = deliverMails(c.env, Date.now()).catch((error: unknown) => {
    console.error(
      'error while sending queued mails, unsent ones are retried after two minutes; a mail may be sent twice',
      { reason: reasonOf(error) },
    );
  });
  c.executionCtx.waitUntil(sent);
}

/** Sends the mails that are due. */
export async function deliverMails(env: Env, now: number): Promise<void> {
  const transport = transportOf(env);
  if (!transport) return;
  const waiting = await claimMails(env.DB, now, MAILS_PER_ROUND);
  const lines = Array.from({ length: MAILS_AT_ONCE }, async () => {
    for (let row = waiting.shift(); row; row = waiting.shift()) await deliver(env, transport, row, now);
  });
  await Promise.all(lines);
}

async function deliver(env: Env, transport: Transport, row: MailRow, now: number): Promise<void> {
  const { id, kind, failures } = row;
  try {
    const mail = JSON.parse(new SecretBox(env.DATA_KEYS).open(purpose(id), row.sealed)) as Mail;
    await transport(mail);
  } catch (error) {
    const pauseMs = PAUSES_MS[failures];
    // May be logged: the server's answer may repeat the recipient, but never the text with the token.
    const reason = reasonOf(error);
    if (pauseMs !== undefined) {
      console.warn('sending of a mail failed, a later round will retry', { id, kind, reason });
      await postponeMail(env.DB, id, now + pauseMs);
      return;
    }
    console.error('last try to send a mail failed, it will be deleted', { id, kind, reason });
    await giveUpMail(env.DB, id, undeliverable(row, reason), now);
    return;
  }
  await dropMail(env.DB, id);
}

function undeliverable({ id, kind, organizationId, userId }: MailRow, reason: string): AuditEntry {
  return {
    organizationId,
    event: 'mail.undeliverable',
    actor: { type: 'SYSTEM', id: 'mail', name: 'mail' },
    target: userId === null ? { type: 'MAIL', id } : { type: 'USER', id: userId },
    address: null,
    outcome: 'FAILURE',
    details: { kind, reason: reason.slice(0, 200) },
  };
}

function purpose(id: string): string {
  return `mail:${id}`;
}
