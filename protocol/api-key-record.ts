/** API keys as admins make and read them (spec: API key record; [C-5.2], [C-5.3]). */
import { z } from 'zod';
import { instant, uuid } from './ids.ts';
import { LIMIT } from './limits.ts';
import { API_KEY_SCOPES } from './scopes.ts';
import { displayName } from './user.ts';

export const apiKeyRequest = z.strictObject({
  name: displayName,
  partnerId: displayName,
  /** Which there are has codes of its own: API_KEY_SCOPES_EMPTY, API_KEY_SCOPE_INVALID. */
  scopes: z.array(z.string()).max(100),
  /** Left out: every plant. */
  allowedPlantIds: z
    .array(uuid)
    .min(1, 'must name a plant, or be left out')
    .max(LIMIT.allowedPlantsPerKey)
    .optional(),
  /** CIDR ranges; empty or left out: no restriction. */
  allowedIps: z.array(z.string().max(64)).max(LIMIT.allowedIpsPerKey).optional(),
  expiresAt: instant.optional(),
});
export type ApiKeyRequest = z.infer<typeof apiKeyRequest>;

export const apiKeyRecord = z.strictObject({
  id: z.string(),
  keyPrefix: z.string(),
  name: z.string(),
  partnerId: z.string(),
  scopes: z.array(z.enum(API_KEY_SCOPES)),
  /** What they come to: a connect scope that stands alone grants every vcp:write:*. */
  effectiveScopes: z.array(z.enum(API_KEY_SCOPES)),
  allowedPlantIds: z.array(z.string()).nullable(),
  allowedIps: z.array(z.string()),
  vhost: z.string().nullable(),
  isActive: z.boolean(),
  expiresAt: z.string().nullable(),
  lastUsedAt: z.string().nullable(),
  createdBy: z.string(),
  organizationId: z.string(),
  createdAt: z.string(),
  updatedAt: z.string(),
  creator: z.strictObject({ id: z.string(), name: z.string(), email: z.string() }),
});
export type ApiKeyRecord = z.infer<typeof apiKeyRecord>;

/** What a partner connects with (spec: Connection bundle). */
export const connectionBundle = z.strictObject({
  amqps: z.strictObject({
    uri: z.string(),
    host: z.string(),
    port: z.int(),
    username: z.string(),
    vhost: z.string(),
  }),
  queues: z.strictObject({
    telemetry: z.string(),
    alarms: z.string(),
    ack: z.string(),
    command: z.string(),
    schedule: z.string(),
    config: z.string(),
  }),
  rest: z.strictObject({ baseUrl: z.string() }),
  codeSamples: z.strictObject({ node: z.string(), python: z.string(), curl: z.string() }),
});
export type ConnectionBundle = z.infer<typeof connectionBundle>;

export const createdApiKey = z.strictObject({
  /** Plaintext, told once. */
  key: z.string(),
  /** 64 hex characters, told once. */
  signingKey: z.string(),
  apiKey: apiKeyRecord,
  connectionBundle: connectionBundle.nullable(),
});
export type CreatedApiKey = z.infer<typeof createdApiKey>;

export const connectionTest = z.strictObject({
  ok: z.boolean(),
  durationMs: z.int().min(0),
  error: z.string().optional(),
});
export type ConnectionTest = z.infer<typeof connectionTest>;
