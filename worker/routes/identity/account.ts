/** A person's own account: proof of the address, password reset and e-mail change [C-11.3], [C-11.4], [C-14.1]. */
import type { Context } from 'hono';
import { reasonOf } from '../../../durable-objects/object/reason.ts';
import { randomToken } from '../../../durable-objects/secrets/base64.ts';
import {
  accepted,
  emailChangePending,
  emailChangeRequest,
  emailChangeState,
  MAILED_TOKEN,
  resetConfirmation,
  resetRequest,
  tokenProof,
} from '../../../protocol/account.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { success } from '../../../protocol/user.ts';
import {
  type AccountToken,
  cancelEmailChange,
  confirmEmailChange,
  findEmailChange,
  findToken,
  isJustIssued,
  issueToken,
  proveEmail,
  resetPassword,
  type TokenPurpose,
} from '../../../registry/accounts.ts';
import { findUser, findUserByEmail } from '../../../registry/users.ts';
import { requirePassword } from '../../auth/current-password.ts';
import { turnToHash } from '../../auth/hash-turn.ts';
import { waiterOf } from '../../auth/lock.ts';
import { hashPassword } from '../../auth/password.ts';
import { auditUser } from '../../auth/user-audit.ts';
import type { AppContext } from '../../env.ts';
import { ApiError, unavailable } from '../../http/error-response.ts';
import { recheckStreams } from '../../lifecycle/watches.ts';
import {
  isMailOn,
  mailOrigin,
  mailRow,
  mayMail,
  requireMailShare,
  requireRoom,
  sendQueued,
} from '../../mail/outbox.ts';
import { emailChangeMail, emailChangeNotice, passwordResetMail, verifyEmailMail } from '../../mail/texts.ts';
import { route } from '../../route.ts';

const ACCOUNT = { door: 'account' } as const;
const ANYBODY = { door: 'public' } as const;
const EXAMPLE_TOKEN = 'pB3uL0r1yq7mZ0mJq8m7yq0e2n3w4x5v6u7t8s9r0q1';

export const accountRoutes = [
  route('POST /api/v1/auth/verify-email', {
    summary: 'Prove your e-mail address with the mailed token',
    who: ANYBODY,
    body: tokenProof,
    examples: { body: { token: EXAMPLE_TOKEN } },
    answer: { description: 'The address is proved', body: success },
    handler: async (c, { body }) => {
      const now = Date.now();
      const token = await goodToken(c, 'VERIFY_EMAIL', body.token, now);
      if (!token || !(await proveEmail(c.env.DB, token, now))) throw invalidToken();
      auditUser(c, { id: token.userId, email: token.email }, 'user.email_verified');
      return { success: true as const };
    },
  }),
  route('POST /api/v1/auth/verify-email/resend', {
    summary: 'Mail the token that proves your e-mail address again',
    who: ACCOUNT,
    answer: {
      status: 202,
      description:
        'A mail is sent, unless the address is proved or a token was mailed less than a minute ago',
      body: accepted,
    },
    handler: async (c) => {
      requireMail(c);
      const { row } = c.get('user');
      const now = Date.now();
      if (row.provedAtMs === null && !(await isJustIssued(c.env.DB, row.id, 'VERIFY_EMAIL', now))) {
        await requireRoom(c, row.email);
        await mailVerification(c, row, now);
      }
      return { accepted: true as const };
    },
  }),
  route('POST /api/v1/auth/password-reset', {
    summary: 'Request a token by mail to reset a password',
    who: ANYBODY,
    body: resetRequest,
    examples: { body: { email: 'jana@example.com' } },
    answer: {
      status: 202,
      description:
        'A mail is sent if the address has an account that got none within a minute; the answer is always the same',
      body: accepted,
    },
    handler: async (c, { body }) => {
      requireMail(c);
      await requireMailShare(c);
      await requireRoom(c, body.email);
      // Everything that depends on the e-mail address happens after the answer, so that the time of the
      // answer does not reveal whether there is an account.
      const sent = mailReset(c, body.email, Date.now()).catch((error: unknown) => {
        console.error(
          'password reset failed in the background: without a mail the user has to request it again',
          { reason: reasonOf(error) },
        );
      });
      c.executionCtx.waitUntil(sent);
      return { accepted: true as const };
    },
  }),
  route('POST /api/v1/auth/password-reset/confirm', {
    summary: 'Set a new password with the mailed token',
    who: ANYBODY,
    body: resetConfirmation,
    examples: { body: { token: EXAMPLE_TOKEN, newPassword: 'staple correct horse' } },
    answer: {
      description: 'The password is set, all sessions have ended, and a lock is lifted',
      body: success,
    },
    handler: async (c, { body }) => {
      const now = Date.now();
      const token = await goodToken(c, 'RESET_PASSWORD', body.token, now);
      if (!token) throw invalidToken();
      await turnToHash(waiterOf(c, token.email, now));
      if (!(await resetPassword(c.env.DB, token, hashPassword(body.newPassword), now))) throw invalidToken();
      recheckStreams(c, { kind: 'user', id: token.userId });
      auditUser(c, { id: token.userId, email: token.email }, 'user.password_reset');
      return { success: true as const };
    },
  }),
  route('POST /api/v1/auth/email-change', {
    summary: 'Request another e-mail address for your account',
    who: ACCOUNT,
    body: emailChangeRequest,
    examples: { body: { newEmail: 'jana@example.org', currentPassword: 'correct horse battery' } },
    answer: {
      status: 202,
      description: 'The new address gets a token and the old one a notice; the same if the new one is taken',
      body: emailChangePending,
    },
    errors: ['INVALID_CURRENT_PASSWORD', 'ACCOUNT_LOCKED', 'CONFLICT'],
    handler: async (c, { body: { newEmail, currentPassword } }) => {
      requireMail(c);
      const now = Date.now();
      await requirePassword(c, currentPassword, now);
      const { row } = c.get('user');
      if (await isJustIssued(c.env.DB, row.id, 'CHANGE_EMAIL', now)) throw changeJustMailed();
      await requireRoom(c, newEmail, row.email);
      const answer = { pendingEmail: newEmail, expiresAt: formatInstant(now + LIMIT.emailChangeMs) };
      const token = randomToken();
      const about = { userId: row.id };
      if (!(await mayMail(c, newEmail, { kind: 'email-change', ...about }, now))) return answer;
      // Until the address is proved, it may be that of a stranger.
      const isNotified =
        row.provedAtMs !== null ||
        (await mayMail(c, row.email, { kind: 'email-change-notice', ...about }, now));
      const mails = [
        mailRow(c.env, emailChangeMail(newEmail, { token, origin: mailOrigin(c.env) }), about, now),
        isNotified ? mailRow(c.env, emailChangeNotice(row.email), about, now) : undefined,
      ];
      const wanted = { userId: row.id, purpose: 'CHANGE_EMAIL' as const, email: newEmail, token };
      if (!(await issueToken(c.env.DB, { ...wanted, lifeMs: LIMIT.emailChangeMs }, mails, now)))
        throw changeJustMailed();
      sendQueued(c);
      return answer;
    },
  }),
  route('GET /api/v1/auth/email-change', {
    summary: 'Get the pending change of your e-mail address',
    who: ACCOUNT,
    answer: {
      description:
        'The address that is not confirmed yet, and how long its token is valid; null: no change is pending',
      body: emailChangeState,
    },
    handler: async (c) => {
      const pending = await findEmailChange(c.env.DB, c.get('user').row.id, Date.now());
      if (!pending) return { pendingEmail: null, expiresAt: null };
      return { pendingEmail: pending.email, expiresAt: formatInstant(pending.expiresAtMs) };
    },
  }),
  route('POST /api/v1/auth/email-change/confirm', {
    summary: 'Confirm your new e-mail address with the mailed token',
    who: ACCOUNT,
    body: tokenProof,
    examples: { body: { token: EXAMPLE_TOKEN } },
    answer: { description: 'The address has changed, and all other sessions have ended', body: success },
    errors: ['EMAIL_CHANGE_TOKEN_INVALID', 'EMAIL_CHANGE_TOKEN_EXPIRED', 'EMAIL_ALREADY_REGISTERED'],
    handler: async (c, { body }) => {
      const now = Date.now();
      const { row, sessionId } = c.get('user');
      const token = MAILED_TOKEN.test(body.token)
        ? await findToken(c.env.DB, 'CHANGE_EMAIL', body.token)
        : undefined;
      if (!token || token.userId !== row.id) throw invalidChangeToken();
      if (token.expiresAtMs <= now)
        throw new ApiError(
          'EMAIL_CHANGE_TOKEN_EXPIRED',
          'The token has expired: request the change of the e-mail address again',
        );
      const changed = await confirmEmailChange(c.env.DB, token, sessionId, now);
      if (changed === 'used') throw invalidChangeToken();
      if (changed === 'taken')
        throw new ApiError(
          'EMAIL_ALREADY_REGISTERED',
          `${token.email} belongs to another account: request a change to another address`,
        );
      recheckStreams(c, { kind: 'user', id: row.id });
      auditUser(c, { id: row.id, email: token.email }, 'user.email_changed', { previousEmail: row.email });
      return { success: true as const };
    },
  }),
  route('DELETE /api/v1/auth/email-change', {
    summary: 'Cancel the pending change of your e-mail address',
    who: ACCOUNT,
    answer: { description: 'Cancelled; the mailed token is no longer valid', body: success },
    errors: ['EMAIL_CHANGE_NOT_PENDING'],
    handler: async (c) => {
      if (!(await cancelEmailChange(c.env.DB, c.get('user').row.id, Date.now())))
        throw new ApiError(
          'EMAIL_CHANGE_NOT_PENDING',
          'No change of your e-mail address is pending: there is nothing to cancel',
        );
      return { success: true as const };
    },
  }),
];

/** Mails an account the token that proves its address, as far as the address may get a mail; does nothing while mail is off. */
export async function mailVerification(
  c: Context<AppContext>,
  { id: userId, email }: { id: string; email: string },
  now: number,
): Promise<void> {
  if (!isMailOn(c.env) || !(await mayMail(c, email, { kind: 'verify-email', userId }, now))) return;
  const token = randomToken();
  const wanted = { userId, purpose: 'VERIFY_EMAIL' as const, email, token, lifeMs: LIMIT.verifyEmailMs };
  const mail = verifyEmailMail(email, { token, origin: mailOrigin(c.env) });
  if (await issueToken(c.env.DB, wanted, [mailRow(c.env, mail, { userId }, now)], now)) sendQueued(c);
}

async function mailReset(c: Context<AppContext>, email: string, now: number): Promise<void> {
  const user = await findUserByEmail(c.env.DB, email);
  if (!user || (await isJustIssued(c.env.DB, user.id, 'RESET_PASSWORD', now))) return;
  if (!(await mayMail(c, email, { kind: 'password-reset', userId: user.id }, now))) return;
  const token = randomToken();
  const mail = passwordResetMail(email, { token, origin: mailOrigin(c.env) });
  const wanted = { userId: user.id, purpose: 'RESET_PASSWORD' as const, email, token };
  const row = mailRow(c.env, mail, { userId: user.id }, now);
  if (await issueToken(c.env.DB, { ...wanted, lifeMs: LIMIT.passwordResetMs }, [row], now)) sendQueued(c);
}

/** The token if it is well-formed, known and has not expired. */
async function goodToken(
  c: Context<AppContext>,
  purpose: TokenPurpose,
  text: string,
  now: number,
): Promise<AccountToken | undefined> {
  if (!MAILED_TOKEN.test(text)) return undefined;
  const token = await findToken(c.env.DB, purpose, text);
  if (!token || token.expiresAtMs <= now) return undefined;
  // The token is not valid if the account's address has changed since the token was mailed.
  return (await findUser(c.env.DB, token.userId))?.email === token.email ? token : undefined;
}

function invalidToken(): ApiError {
  return new ApiError('VALIDATION_ERROR', 'token is unknown, was used or has expired: request a new one');
}

function changeJustMailed(): ApiError {
  return new ApiError(
    'CONFLICT',
    'A token for a change was mailed less than a minute ago: wait a minute, or cancel that change first',
  );
}

function invalidChangeToken(): ApiError {
  return new ApiError(
    'EMAIL_CHANGE_TOKEN_INVALID',
    'The token is unknown, was used, or belongs to another account: log in as the account that requested the change',
  );
}

/** Throws while mail is off: the token could not be sent to the user. */
function requireMail(c: Context<AppContext>): void {
  if (!isMailOn(c.env))
    throw unavailable('This deployment sends no mail: ask an admin or the operator for help', 3_600);
}
