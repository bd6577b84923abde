/** A person's own account: proof of the address, e-mail change, password reset and sessions [C-11.3] to [C-11.5]. */
import * as z from 'zod';
import { email, password, refreshAnswer } from './user.ts';

/** A token as it is mailed: 256 random bits. */
export const MAILED_TOKEN = /^[A-Za-z0-9_-]{43}$/;

/** Malformed tokens have codes of their own, so the route checks them. */
const givenToken = z.string().max(500);
/** A password that is only compared. Without a minimum, errors do not reveal the password rules. */
const givenPassword = z.string().max(200);

export const tokenProof = z.strictObject({ token: givenToken });

export const emailChangeRequest = z.strictObject({ newEmail: email, currentPassword: givenPassword });
export const emailChangePending = z.strictObject({ pendingEmail: z.string(), expiresAt: z.string() });
/** Both fields are null while no change of the e-mail address is pending. */
export const emailChangeState = z.strictObject({
  pendingEmail: z.string().nullable(),
  expiresAt: z.string().nullable(),
});

export const resetRequest = z.strictObject({ email });
export const resetConfirmation = z.strictObject({ token: givenToken, newPassword: password });

/**
 * The answer of routes that send a mail only if an account exists: it is the same in both cases, so it does
 * not reveal whether there is an account.
 */
export const accepted = z.strictObject({ accepted: z.literal(true) });

export const sessionRecord = z.strictObject({
  id: z.string(),
  createdAt: z.string(),
  /** When the session was opened or last refreshed. */
  lastUsedAt: z.string(),
  address: z.string().nullable(),
  userAgent: z.string().nullable(),
  /** Whether this is the session of the request. */
  current: z.boolean(),
});
export type SessionRecord = z.infer<typeof sessionRecord>;

/** The new tokens of the session in which the password was changed. */
export const passwordChanged = refreshAnswer.extend({ success: z.literal(true) });
