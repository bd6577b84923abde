/** Bindings that the objects and the Worker share. The names stand in wrangler.toml. */
import type { FiguresRpc } from './figures/report.ts';
import type { RequestCounterRpc, SiteRpc, VhostRpc } from './rpc.ts';

export interface Env {
  DB: D1Database;
  SITE: DurableObjectNamespace<SiteRpc & Rpc.DurableObjectBranded>;
  VHOST: DurableObjectNamespace<VhostRpc & Rpc.DurableObjectBranded>;
  REQUESTS: DurableObjectNamespace<RequestCounterRpc & Rpc.DurableObjectBranded>;
  FIGURES: DurableObjectNamespace<FiguresRpc & Rpc.DurableObjectBranded>;
  /** Sheds load in front of all counting; approximate. */
  SHED?: { limit(options: { key: string }): Promise<{ success: boolean }> };
  /** What bridges prove themselves by (rule 1), a comma between: the newest secret, and those that some still have. */
  BRIDGE_SECRET: string;
  /** See SecretBox. */
  DATA_KEYS: string;
  /** A JWK set of Ed25519 keys: the first private one signs device tokens, all verify (secrets/device-tokens.ts). */
  TOKEN_KEYS: string;
  /** Signs users' tokens: at least 32 characters, several separated by commas, the newest first: it signs, all verify. */
  SESSION_SECRET: string;
  /** Who scrapes the figures shows one of these, a comma between, at least 32 characters each; without it nobody may. */
  METRICS_TOKEN?: string;
  /** What the platform says of the deployed version. */
  VERSION?: { id: string };
  /** The public AMQPS listener, which a new key is probed through; without it no key may have broker scopes. */
  AMQP_HOST?: string;
  /** 5671 unless given. */
  AMQP_PORT?: string;
  /** The public MQTTS listener; without it no device is provisioned. */
  MQTT_HOST?: string;
  /** 8885 and 8883 unless given. */
  MQTT_PORT?: string;
  MQTT_MTLS_PORT?: string;
  /** PEM of what devices must trust there; absent: what systems trust. */
  MQTT_CA?: string;
  /** Our own authority for device certificates: PEM of its certificate and of its key (PKCS #8). */
  DEVICE_CA_CERTIFICATE?: string;
  DEVICE_CA_KEY?: string;
  /** `platform`: the edge stands behind the platform's front, whose client-address header is true. */
  CLIENT_ADDRESS?: string;
}

/** A Site and a Vhost as they are called. */
export type SiteStub = ReturnType<Env['SITE']['get']>;
export type VhostStub = ReturnType<Env['VHOST']['get']>;
