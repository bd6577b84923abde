/** Support sessions as their organization sees them: the operator reads for an hour what an ORG_ADMIN can read. */
import { z } from 'zod';

/** Begins each token of a support session, so that no other credential is looked up among them. */
export const SUPPORT_TOKEN_PREFIX = 'support_';

export const supportSession = z.strictObject({
  id: z.string(),
  reason: z.string(),
  createdAt: z.string(),
  expiresAt: z.string(),
  isActive: z.boolean(),
});
export type SupportSession = z.infer<typeof supportSession>;
