/** The routes for an invited person: read the invitation, and accept it [C-11.2]. */
import type { Context } from 'hono';
import type * as z from 'zod';
import { networkOf } from '../../../protocol/address-range.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import {
  INVITATION_TOKEN,
  invitationAcceptance,
  invitationAccepted,
  invitationQuestion,
  invitationSummary,
} from '../../../protocol/invitation.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import {
  type Accepting,
  acceptInvitation,
  type FoundInvitation,
  findByToken,
} from '../../../registry/invitation-acceptance.ts';
import { statusOf } from '../../../registry/invitations.ts';
import { readAccessCookie } from '../../auth/access-cookie.ts';
import { addressOf, placeOf } from '../../auth/address.ts';
import { requireUser } from '../../auth/authenticate.ts';
import { turnToHash } from '../../auth/hash-turn.ts';
import { waiterOf } from '../../auth/lock.ts';
import { answerLogin, forBrowser } from '../../auth/login.ts';
import { hashPassword } from '../../auth/password.ts';
import type { AppContext } from '../../env.ts';
import { ApiError, conflict, invalidBody, unauthorized } from '../../http/error-response.ts';
import { countRequest } from '../../http/rate.ts';
import { route } from '../../route.ts';

const ANYBODY = { door: 'public' } as const;
const EXAMPLE_TOKEN = 'pB3uL0r1yq7mZ0mJq8m7yq0e2n3w4x5v6u7t8s9r0q1';

export const acceptanceRoutes = [
  route('POST /api/v1/invitations/verify', {
    summary: 'Get the organization, the address and the role of an invitation',
    who: ANYBODY,
    body: invitationQuestion,
    examples: { body: { token: EXAMPLE_TOKEN } },
    answer: { description: 'The organization, the invited address and the role', body: invitationSummary },
    errors: [
      'INVITATION_TOKEN_MISSING',
      'ACCEPT_INVITE_TOKEN_INVALID_FORMAT',
      'INVITATION_NOT_FOUND',
      'INVITATION_EXPIRED',
      'INVITATION_ALREADY_ACCEPTED',
      'INVITATION_VERIFY_THROTTLED',
    ],
    handler: async (c, { body }) => {
      await throttle(c);
      const { invitation, organization, userId, isProved } = await requireByToken(c, body.token);
      const { email, role, expiresAtMs } = invitation;
      const { name, slug } = organization;
      const expiresAt = formatInstant(expiresAtMs);
      return {
        organization: { name, slug },
        email,
        role,
        expiresAt,
        accountExists: userId !== null && isProved,
      };
    },
  }),
  route('POST /api/v1/invitations/accept', {
    summary:
      'Accept an invitation: with a session of the invited address, or with name and password of a new account',
    who: ANYBODY,
    body: invitationAcceptance,
    examples: {
      body: { token: EXAMPLE_TOKEN, confirm: true, name: 'Petr', password: 'correct horse battery' },
    },
    answer: {
      description: 'The organization and the role; for a new account also the tokens of its first session',
      body: invitationAccepted,
    },
    errors: [
      'INVITATION_TOKEN_MISSING',
      'ACCEPT_INVITE_TOKEN_INVALID_FORMAT',
      'INVITATION_CONFIRMATION_REQUIRED',
      'INVITATION_CONFIRMATION_INVALID',
      'INVITATION_NOT_FOUND',
      'INVITATION_EXPIRED',
      'INVITATION_ALREADY_ACCEPTED',
      'INVITATION_EMAIL_MISMATCH',
      'INVITATION_VERIFY_THROTTLED',
      'UNAUTHORIZED',
      'TOKEN_VERSION_MISMATCH',
      'ORIGIN_MISMATCH',
      'CONFLICT',
    ],
    handler: async (c, { body }) => {
      await throttle(c);
      if (body.confirm === undefined)
        throw new ApiError('INVITATION_CONFIRMATION_REQUIRED', 'confirm is missing: send "confirm": true');
      if (body.confirm !== true)
        throw new ApiError(
          'INVITATION_CONFIRMATION_INVALID',
          'confirm has another value than true: send "confirm": true',
        );
      const found = await requireByToken(c, body.token);
      const accepting = await whoAccepts(c, found, body);
      const now = Date.now();
      const { id, name, slug } = found.organization;
      const { email, role } = found.invitation;
      const accepted = await acceptInvitation(
        c.env.DB,
        found,
        accepting,
        (userId) => ({
          organizationId: id,
          event: 'member.joined',
          actor: { type: 'USER', id: userId, name: email },
          target: { type: 'USER', id: userId },
          address: addressOf(c),
          outcome: 'SUCCESS',
          details: { role, invitation: found.invitation.id },
        }),
        now,
      );
      if (accepted.outcome === 'registered') throw needsSession(email);
      if (accepted.outcome === 'used') throw notAcceptable();
      const { user, sessionId } = accepted;
      const answer = sessionId ? await answerLogin(c, user, { sessionId, generation: 1 }, now) : null;
      return { organization: { id, name, slug }, role, session: answer && forBrowser(c, answer) };
    },
  }),
];

/** The user of the session, or the account that a new person creates. */
async function whoAccepts(
  c: Context<AppContext>,
  { invitation: { email }, userId, isProved }: FoundInvitation,
  { name, password }: z.infer<typeof invitationAcceptance>,
): Promise<Accepting> {
  const hasSession = c.req.header('authorization') !== undefined || readAccessCookie(c) !== undefined;
  if (hasSession || (userId !== null && isProved)) {
    if (!hasSession) throw needsSession(email);
    const { row } = await requireUser(c);
    if (row.email === email) return { userId: row.id };
    throw new ApiError(
      'INVITATION_EMAIL_MISMATCH',
      `The invitation is for ${email}: log in with that address, or log out first`,
    );
  }
  const missing = [...(name === undefined ? ['name'] : []), ...(password === undefined ? ['password'] : [])];
  if (name === undefined || password === undefined)
    throw invalidBody(
      ...missing.map((field) => `${field}: required, because ${email} has no account with a proved address`),
    );
  await turnToHash(waiterOf(c, email, Date.now()));
  return { name, passwordHash: hashPassword(password), place: placeOf(c), replaces: userId };
}

async function requireByToken(c: Context<AppContext>, token: unknown): Promise<FoundInvitation> {
  if (token === undefined || token === null || token === '')
    throw new ApiError('INVITATION_TOKEN_MISSING', 'token is missing: send the token of the invitation');
  if (typeof token !== 'string' || !INVITATION_TOKEN.test(token))
    throw new ApiError(
      'ACCEPT_INVITE_TOKEN_INVALID_FORMAT',
      'token must be 43 characters of A-Z, a-z, 0-9, - and _: copy it as a whole',
    );
  const found = await findByToken(c.env.DB, token);
  if (!found) throw invitationNotFound();
  switch (statusOf(found.invitation, Date.now())) {
    case 'PENDING':
      return found;
    case 'EXPIRED':
      throw new ApiError('INVITATION_EXPIRED', 'The invitation has expired: ask for a new one');
    case 'ACCEPTED':
      throw invitationAlreadyAccepted();
    case 'REVOKED':
      throw invitationNotFound();
  }
}

/**
 * Limits how fast one client address can try tokens. If addresses are not known there is no limit; tokens are
 * too long to be guessed anyway.
 */
async function throttle(c: Context<AppContext>): Promise<void> {
  const address = addressOf(c);
  if (address === null) return;
  const count = await countRequest(c, `invitation:${networkOf(address)}`, LIMIT.invitationChecksPerMinute);
  if (!count?.isOver) return;
  const seconds = Math.max(1, Math.ceil(count.resetMs / 1_000));
  throw new ApiError(
    'INVITATION_VERIFY_THROTTLED',
    `More than ${LIMIT.invitationChecksPerMinute} checks of invitation tokens in a minute from your address or network: try again in ${seconds} s`,
    { headers: { 'retry-after': String(seconds) } },
  );
}

function needsSession(email: string): ApiError {
  return unauthorized(`${email} has an account: log in with it, then accept the invitation`);
}

function notAcceptable(): ApiError {
  return conflict(
    `You are a member already, the invitation has just ended, or a limit is reached (${LIMIT.membersPerOrganization} members, ${LIMIT.organizationsPerUser} organizations of a user)`,
  );
}

export function invitationNotFound(): ApiError {
  return new ApiError('INVITATION_NOT_FOUND', 'The invitation is unknown or was revoked: ask for a new one');
}

export function invitationAlreadyAccepted(): ApiError {
  return new ApiError(
    'INVITATION_ALREADY_ACCEPTED',
    'The invitation was already accepted: log in to use the organization',
  );
}
