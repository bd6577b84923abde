/**
 * The outbox of mail [C-11.1]. A mail is a row that is written together with the change that the mail is
 * about; it is sent after the request was answered. Sending is retried with longer and longer pauses. After
 * the last failed try the mail is deleted, and an audit event is written.
 */
import type { Context } from 'hono';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { SecretBox } from '../../durable-objects/secrets/secret-box.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { writeAudit } from '../../registry/audit.ts';
import type { AuditEntry } from '../../registry/entries.ts';
import {
  claimMail,
  dropMail,
  dueMails,
  giveUpMail,
  hasRoom,
  type MailRow,
  NO_LANE,
  postponeMail,
  takeShare,
} from '../../registry/mails.ts';
import type { AppContext, Env } from '../env.ts';
import { unavailable } from '../http/error-response.ts';
import { requireNetworkShare } from '../http/rate.ts';
import { mailFault } from './settings.ts';
import type { Mail } from './texts.ts';
import { type Transport, transportOf } from './transport.ts';

const MINUTE_MS = 60_000;
const FAULT_RETRY_S = 600;
const FULL_RETRY_S = 60;
/** Mails that the owner of an account needs to get in. */
const OF_ACCOUNT = ['password-reset', 'verify-email'];
const MAIL_ACTOR = { type: 'SYSTEM', id: 'mail', name: 'mail' } as const;
const PAUSES_MS = [1, 5, 30, 120, 360].map((minutes) => minutes * MINUTE_MS);
/** Maximum number of mails in one round. If a round takes longer than a minute, the next one starts beside it. */
const MAILS_PER_ROUND = 40;
const MAILS_AT_ONCE = 4;

/** Throws 503 if the settings of mail cannot work, before a request has changed anything. */
export function isMailOn(env: Env): boolean {
  const fault = mailFault(env);
  if (fault !== undefined) throw unavailable(`This deployment cannot send mail: ${fault}`, FAULT_RETRY_S);
  return transportOf(env) !== undefined;
}

/** Counts a request of a stranger that may cause a mail: a network has a share of them a minute. */
export async function requireMailShare(c: Context<AppContext>): Promise<void> {
  const most = LIMIT.mailRequestsPerMinute;
  await requireNetworkShare(c, 'mail', most, 'registrations and password resets from your network');
}

/**
 * Throws 503 if the queue has no room for mails to these addresses, before a request has changed anything: a mail is never
 * dropped in silence [C-15.5].
 */
export async function requireRoom(c: Context<AppContext>, ...addresses: readonly string[]): Promise<void> {
  if (!isMailOn(c.env) || (await hasRoom(c.env.DB, addresses.map(laneOf)))) return;
  throw unavailable('Too many mails wait to be sent, so this one cannot be', FULL_RETRY_S);
}

/**
 * Whether an address may get one more mail because of a request that not only its proved owner can make [C-15.5]. If it may
 * not, an audit event says so, and the request is answered as usual.
 */
export async function mayMail(
  c: Context<AppContext>,
  address: string,
  { kind, organizationId, userId }: { kind: string; organizationId?: string; userId?: string },
  now: number,
): Promise<boolean> {
  if (await takeShare(c.env.DB, address, OF_ACCOUNT.includes(kind), now)) return true;
  const audit: AuditEntry = {
    organizationId: organizationId ?? null,
    event: 'mail.limited',
    actor: MAIL_ACTOR,
    target: userId === undefined ? null : { type: 'USER', id: userId },
    address: null,
    outcome: 'FAILURE',
    details: { kind, ...(organizationId === undefined ? {} : { email: address }) },
  };
  await writeAudit(c.env.DB, audit, now);
  return false;
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
 * event if the mail cannot be sent; or the user, whom an event of no organization then names. `isOfPlatform`: no request of
 * a person causes it.
 */
export function mailRow(
  env: Env,
  mail: Mail,
  about: { organizationId?: string; userId?: string; isOfPlatform?: true },
  now: number,
): MailRow | undefined {
  if (!isMailOn(env)) return undefined;
  const id = crypto.randomUUID();
  return {
    id,
    kind: mail.kind,
    lane: about.isOfPlatform ? NO_LANE : laneOf(mail.to),
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
  // A try may take long: each mail is reserved just before its own, and its pause begins at the end of it.
  const clock = () => Math.max(now, Date.now());
  const waiting = await dueMails(env.DB, now, MAILS_PER_ROUND);
  const lines = Array.from({ length: MAILS_AT_ONCE }, async () => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      const row = await claimMail(env.DB, id, clock());
      if (row) await deliver(env, transport, row, clock);
    }
  });
  await Promise.all(lines);
}

async function deliver(env: Env, transport: Transport, row: MailRow, clock: () => number): Promise<void> {
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
      await postponeMail(env.DB, id, clock() + pauseMs);
      return;
    }
    console.error('last try to send a mail failed, it will be deleted', { id, kind, reason });
    await giveUpMail(env.DB, id, undeliverable(row, reason), clock());
    return;
  }
  await dropMail(env.DB, id);
}

function undeliverable({ id, kind, organizationId, userId }: MailRow, reason: string): AuditEntry {
  return {
    organizationId,
    event: 'mail.undeliverable',
    actor: MAIL_ACTOR,
    target: userId === null ? { type: 'MAIL', id } : { type: 'USER', id: userId },
    address: null,
    outcome: 'FAILURE',
    details: { kind, reason: reason.slice(0, 200) },
  };
}

/** The domain of an address: mails to one domain share a part of the queue. */
export function laneOf(address: string): string {
  return address.slice(address.lastIndexOf('@') + 1).toLowerCase();
}

function purpose(id: string): string {
  return `mail:${id}`;
}
