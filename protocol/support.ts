/** Support sessions as their organization sees them: the operator reads for an hour what an ORG_ADMIN can read. */
import * as z from 'zod';

/** The beginning of each support token. Only tokens that begin with it are searched among the support sessions. */
export const SUPPORT_TOKEN_PREFIX = 'support_';

export const supportSession = z.strictObject({
  id: z.string(),
  reason: z.string(),
  createdAt: z.string(),
  expiresAt: z.string(),
  isActive: z.boolean(),
});
export type SupportSession = z.infer<typeof supportSession>;
