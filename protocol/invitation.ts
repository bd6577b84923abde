/** Invitations: except for its creator, a person becomes a member of an organization only by accepting one [C-11.2]. */
import * as z from 'zod';
import { ROLES } from './enums.ts';
import { displayName, password, refreshAnswer } from './user.ts';

/** A pending invitation whose time is over is EXPIRED. */
export const INVITATION_STATUSES = ['PENDING', 'ACCEPTED', 'REVOKED', 'EXPIRED'] as const;
export type InvitationStatus = (typeof INVITATION_STATUSES)[number];

/** 256 random bits. */
export const INVITATION_TOKEN = /^[A-Za-z0-9_-]{43}$/;

export const invitationRecord = z.strictObject({
  id: z.string(),
  email: z.string(),
  role: z.enum(ROLES),
  status: z.enum(INVITATION_STATUSES),
  expiresAt: z.string(),
  createdBy: z.string(),
  createdAt: z.string(),
  /** Only in the answer that makes the token, and only while the platform sends no mail. */
  token: z.string().optional(),
  /** A link with the token, for the invited person. */
  url: z.string().optional(),
});
export type InvitationRecord = z.infer<typeof invitationRecord>;

/** The answer to `POST …/members`: the same for a registered and an unknown address. */
export const invitedMember = invitationRecord.omit({ status: true }).extend({ status: z.literal('INVITED') });

/** Malformed tokens and confirmations have codes of their own, so the route checks them. */
const given = z.unknown().optional();
const token = given.meta({ type: 'string', pattern: INVITATION_TOKEN.source });

export const invitationQuestion = z.strictObject({ token });
export const invitationAcceptance = z.strictObject({
  token,
  confirm: given.meta({ const: true }),
  /** Name and password of a new account. */
  name: displayName.optional(),
  password: password.optional(),
});

/** What a token invites to. */
export const invitationSummary = z.strictObject({
  organization: z.strictObject({ name: z.string(), slug: z.string() }),
  email: z.string(),
  role: z.enum(ROLES),
  expiresAt: z.string(),
  accountExists: z.boolean(),
});

export const invitationAccepted = z.strictObject({
  organization: z.strictObject({ id: z.string(), name: z.string(), slug: z.string() }),
  role: z.enum(ROLES),
  /** The tokens of a new account's first session; null for an account that existed. */
  session: refreshAnswer.nullable(),
});
