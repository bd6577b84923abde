/** Bindings that the objects and the Worker share. The names stand in wrangler.toml. */
import type { RequestCounterRpc, SiteRpc, VhostRpc } from './rpc.ts';

export interface Env {
  DB: D1Database;
  SITE: DurableObjectNamespace<SiteRpc & Rpc.DurableObjectBranded>;
  VHOST: DurableObjectNamespace<VhostRpc & Rpc.DurableObjectBranded>;
  REQUESTS: DurableObjectNamespace<RequestCounterRpc & Rpc.DurableObjectBranded>;
  /** Sheds load in front of all counting; approximate. */
  SHED?: { limit(options: { key: string }): Promise<{ success: boolean }> };
  /** Shared with the bridges: proves that an upgrade comes from one (rule 1). */
  BRIDGE_SECRET: string;
  /** See SecretBox. */
  DATA_KEYS: string;
  /** Ed25519 public key, JWK text: verifies device tokens. */
  TOKEN_PUBLIC_KEY: string;
  /** Signs users' tokens: at least 32 characters, several separated by commas, the newest first: it signs, all verify. */
  SESSION_SECRET: string;
  /** The public AMQPS listener, which a new key is probed through; without it no key may have broker scopes. */
  AMQP_HOST?: string;
  /** 5671 unless given. */
  AMQP_PORT?: string;
  /** `platform`: the edge stands behind the platform's front, whose client-address header is true. */
  CLIENT_ADDRESS?: string;
}

/** A Site and a Vhost as they are called. */
export type SiteStub = ReturnType<Env['SITE']['get']>;
export type VhostStub = ReturnType<Env['VHOST']['get']>;
