/** Bindings that the objects and the Worker share. The names stand in wrangler.toml. */
import type { SiteRpc, VhostRpc } from './rpc.ts';

export interface Env {
  DB: D1Database;
  SITE: DurableObjectNamespace<SiteRpc & Rpc.DurableObjectBranded>;
  VHOST: DurableObjectNamespace<VhostRpc & Rpc.DurableObjectBranded>;
  /** Shared with the bridges: proves that an upgrade comes from one (rule 1). */
  BRIDGE_SECRET: string;
  /** See SecretBox. */
  DATA_KEYS: string;
  /** Ed25519 public key, JWK text: verifies device tokens. */
  TOKEN_PUBLIC_KEY: string;
  /** `platform`: the edge stands behind the platform's front, whose client-address header is true. */
  CLIENT_ADDRESS?: string;
}

/** A Site and a Vhost as they are called. */
export type SiteStub = ReturnType<Env['SITE']['get']>;
export type VhostStub = ReturnType<Env['VHOST']['get']>;
