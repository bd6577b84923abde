/** Users, their registration and login ([C-1.2], [C-1.4], [C-1.5]). No answer contains a password hash. */
import * as z from 'zod';
import { isCommonPassword } from './common-passwords.ts';
import { ROLES } from './enums.ts';
import { isReservedSlug, SLUG } from './ids.ts';
import { ACROSS_FIELDS } from './issue.ts';
import { LIMIT } from './limits.ts';
import { plainText } from './text.ts';

export const displayName = plainText.max(LIMIT.nameCharacters).regex(/\S/, 'must not be blank');

const ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
const LAST_LABEL = '(?:[A-Za-z]{2,63}|[Xx][Nn]--[A-Za-z0-9-]{0,58}[A-Za-z0-9])';
/** RFC 5321 without quoted local parts and address literals. */
export const EMAIL = new RegExp(`^(?=[^@]{1,64}@)${ATOM}(?:\\.${ATOM})*@(?:${LABEL}\\.)+${LAST_LABEL}$`);

/** Stored in lower case. */
export const email = z
  .email({ pattern: EMAIL, error: 'must be an e-mail address; write an international domain as xn--…' })
  .max(LIMIT.emailCharacters)
  .transform((text) => text.toLowerCase());

export const password = z
  .string()
  .min(LIMIT.passwordMinCharacters)
  .max(LIMIT.passwordMaxCharacters)
  .refine((text) => !isCommonPassword(text), 'is one of the most common passwords; choose another one');
/** A password that is only compared. Without a minimum, errors do not reveal the password rules. */
const givenPassword = z.string().max(LIMIT.passwordMaxCharacters);

export const slug = z
  .string()
  .regex(SLUG, 'must be lower-case letters, digits and inner hyphens, at most 40')
  .refine((text) => !isReservedSlug(text), 'is reserved: choose another one');

export const registration = z
  .strictObject({
    email,
    password,
    name: displayName,
    organizationName: displayName.optional(),
    organizationSlug: slug.optional(),
  })
  .refine(
    ({ organizationName, organizationSlug }) =>
      (organizationName === undefined) === (organizationSlug === undefined),
    {
      path: ['organizationSlug'],
      message: 'organizationName and organizationSlug must be given together',
      ...ACROSS_FIELDS,
    },
  );

export const login = z.strictObject({ email, password: givenPassword });
/** Without a token that of the browser's cookie counts. */
export const refreshRequest = z.strictObject({ refreshToken: z.string().max(500).optional() });
export const passwordChange = z.strictObject({ currentPassword: givenPassword, newPassword: password });

export const membership = z.strictObject({
  organizationId: z.string(),
  slug: z.string(),
  role: z.enum(ROLES),
});
export type Membership = z.infer<typeof membership>;

export const userRecord = z.strictObject({
  id: z.string(),
  email: z.string(),
  name: z.string(),
  /** The role in the organization of the request; null if the request has no organization. */
  role: z.enum(ROLES).nullable(),
  memberships: z.array(membership),
  lastLoginAt: z.string().nullable(),
  createdAt: z.string(),
});
export type UserRecord = z.infer<typeof userRecord>;

/** The answer to login. */
export const loginAnswer = z.strictObject({
  user: userRecord,
  /** The bearer token, and the value of the cookie `access_token`. */
  accessToken: z.string(),
  tokenType: z.literal('Bearer'),
  expiresIn: z.int().positive(),
  refreshToken: z.string(),
});
export type LoginAnswer = z.infer<typeof loginAnswer>;
/** Without tokens where the cookie refreshed the session. */
export const refreshAnswer = loginAnswer.partial({ accessToken: true, refreshToken: true });
export type BrowserAnswer = z.infer<typeof refreshAnswer>;

export const success = z.strictObject({ success: z.literal(true) });

export const roleChange = z.strictObject({ role: z.enum(ROLES) });
