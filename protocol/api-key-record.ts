/** API keys as admins create and read them (spec: API key record; [C-5.2], [C-5.3]). */
import * as z from 'zod';
import { instant, uuid } from './ids.ts';
import { LIMIT } from './limits.ts';
import { API_KEY_SCOPES } from './scopes.ts';
import { displayName } from './user.ts';

/** Whose commands a key reads: those of its partner, or of all partners of the organization [C-15.1]. */
export const SIGHTS = ['PARTNER', 'ORGANIZATION'] as const;
export type Sight = (typeof SIGHTS)[number];

export const apiKeyRequest = z.strictObject({
  name: displayName,
  partnerId: displayName,
  /** The route checks the values, because their error codes are API_KEY_SCOPES_EMPTY and API_KEY_SCOPE_INVALID. */
  scopes: z.array(z.string().meta({ enum: [...API_KEY_SCOPES] })).max(100),
  /** Omitted: every plant. */
  allowedPlantIds: z
    .array(uuid)
    .min(1, 'must contain at least one plant id, or be omitted to allow every plant')
    .max(LIMIT.allowedPlantsPerKey)
    .optional(),
  /** CIDR ranges; empty or omitted: no restriction. */
  allowedIps: z.array(z.string().max(64)).max(LIMIT.allowedIpsPerKey).optional(),
  expiresAt: instant.optional(),
  sees: z.enum(SIGHTS).default('PARTNER'),
});
export type ApiKeyRequest = z.infer<typeof apiKeyRequest>;

export const apiKeyPatch = z.strictObject({ sees: z.enum(SIGHTS) });

export const apiKeyRecord = z.strictObject({
  id: z.string(),
  keyPrefix: z.string(),
  name: z.string(),
  partnerId: z.string(),
  sees: z.enum(SIGHTS),
  scopes: z.array(z.enum(API_KEY_SCOPES)),
  /** The granted scopes: a connect scope without others includes every vcp:write:*. */
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

/** The connection data of a key for its partner (spec: Connection bundle). */
export const connectionBundle = z.strictObject({
  amqps: z.strictObject({
    uri: z.string(),
    host: z.string(),
    port: z.int(),
    username: z.string(),
    vhost: z.string(),
    /** The exchange that commands are published to, and that queues are bound to. */
    exchange: z.string(),
    /** PEM of the CA that the client must trust; absent if operating systems trust the listener's certificate. */
    caCertificate: z.string().optional(),
  }),
  slug: z.string(),
  queues: z.strictObject({
    telemetry: z.string(),
    alarms: z.string(),
    ack: z.string(),
    execution: z.string(),
    deadLetter: z.string(),
    command: z.string(),
    schedule: z.string(),
    config: z.string(),
  }),
  rest: z.strictObject({ baseUrl: z.string() }),
  /** The plants that the key may see, at most `LIMIT.bundleSites`; `GET /vcp/sites` lists all. */
  sites: z.array(z.strictObject({ siteId: z.string(), name: z.string() })).max(LIMIT.bundleSites),
  codeSamples: z.strictObject({ node: z.string(), python: z.string(), curl: z.string() }),
});
export type ConnectionBundle = z.infer<typeof connectionBundle>;

export const createdApiKey = z.strictObject({
  /** Plaintext, shown only in this answer. */
  key: z.string(),
  /** 64 hex characters, shown only in this answer. */
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
