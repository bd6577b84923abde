/** Bindings that the Durable Objects and the Worker share. wrangler.toml defines their names. */
import type { MetricsEnv } from './metrics/report.ts';
import type { RequestCounterRpc } from './request-counter-rpc.ts';
import type { SiteRpc, VhostRpc } from './rpc.ts';
import type { WatchesRpc } from './watches-rpc.ts';

export interface Env extends MetricsEnv {
  /** The static files that `tools/assets.ts` builds. */
  ASSETS: Fetcher;
  DB: D1Database;
  SITE: DurableObjectNamespace<SiteRpc & Rpc.DurableObjectBranded>;
  VHOST: DurableObjectNamespace<VhostRpc & Rpc.DurableObjectBranded>;
  REQUESTS: DurableObjectNamespace<RequestCounterRpc & Rpc.DurableObjectBranded>;
  WATCHES: DurableObjectNamespace<WatchesRpc & Rpc.DurableObjectBranded>;
  /**
   * Comma-separated secrets that authenticate bridges (rule 1); each is valid. An entry `<bridge id>=<secret>`
   * is the secret of that bridge, which then may not use the secrets without an id.
   */
  BRIDGE_SECRET: string;
  /** Keys that encrypt stored secrets; SecretBox describes the format. */
  DATA_KEYS: string;
  /**
   * A JWK set of Ed25519 keys: the first private key signs device tokens, every key verifies them
   * (secrets/device-tokens.ts).
   */
  TOKEN_KEYS: string;
  /** Comma-separated secrets for user tokens, at least 32 characters each. The first one signs, all verify. */
  SESSION_SECRET: string;
  /**
   * Comma-separated bearer tokens for `GET /metrics`, at least 32 characters each. Without it the endpoint is
   * off.
   */
  METRICS_TOKEN?: string;
  /** The deployed version, as Cloudflare reports it. */
  VERSION?: { id: string };
  /**
   * Host of the public AMQPS listener. New keys are tested through it; without it no new key may have a named
   * vhost.
   */
  AMQP_HOST?: string;
  /** Port of the public AMQPS listener; default 5671. */
  AMQP_PORT?: string;
  /** PEM of the CA that partners must trust for AMQP. Absent: the CAs of the operating system. */
  AMQP_CA?: string;
  /** Host of the public MQTTS listener; without it no device can be provisioned. */
  MQTT_HOST?: string;
  /**
   * Port for devices that log in with a token; default 8885. MQTT_MTLS_PORT: port for devices that log in
   * with a certificate; default 8883.
   */
  MQTT_PORT?: string;
  MQTT_MTLS_PORT?: string;
  /** PEM of the CA that devices must trust for MQTT. Absent: the CAs of the operating system. */
  MQTT_CA?: string;
  /**
   * The platform's CA for device certificates: PEM of its certificate, and PEM of its private key (PKCS #8).
   */
  DEVICE_CA_CERTIFICATE?: string;
  DEVICE_CA_KEY?: string;
  /**
   * Public origin of REST, for example `https://api.example.com`, for connection bundles and the links in
   * mails. Absent: connection bundles contain the origin of the request, which the caller can choose, and mails
   * contain a token without a link.
   */
  PUBLIC_URL?: string;
  /** Comma-separated host names, of a development stack: requests with another one are refused. */
  ALLOWED_HOSTS?: string;
  /** `eu` or `us`: where all objects store their data; absent or `none`: anywhere. It cannot be changed later. */
  JURISDICTION?: string;
  /** `platform`: the edge runs on Cloudflare, so its client address header can be trusted. */
  CLIENT_ADDRESS?: string;
  /**
   * `open`: anybody may register. Absent or `closed`: accounts are created only by invitation or by the
   * operator [C-14.1].
   */
  REGISTRATION?: string;
  /**
   * Comma-separated bearer tokens of the operator, at least 32 characters each; without a token the
   * operator's routes are off.
   */
  OPERATOR_TOKEN?: string;
  /** The mail server: `smtps://user:password@host:465` or `smtp://user:password@host:587` [C-11.1]. */
  SMTP_URL?: string;
  /** The e-mail address that mails are sent from. */
  MAIL_FROM?: string;
  /** Cloudflare's e-mail binding, used if SMTP_URL is absent. */
  EMAIL?: SendEmail;
  /**
   * Stores the mails of a development stack in a folder; receives each mail as the body of a POST. Used if
   * SMTP_URL and EMAIL are absent.
   */
  MAIL_FOLDER?: Fetcher;
  /** `allow`: webhooks may be sent to this machine, by http and on any port, for development [C-12.4]. */
  WEBHOOK_PRIVATE?: string;
  /** Sends the requests of webhooks. Absent: the runtime does, which on Cloudflare reaches public addresses only. */
  WEBHOOK_EGRESS?: Fetcher;
  /** Requests per minute of one client address (IPv6: one /64 network); default 1 200 [C-14.2]. */
  ADDRESS_RATE_PER_MINUTE?: string;
}

/** Stubs for calls to a Site and to a Vhost. */
export type SiteStub = ReturnType<Env['SITE']['get']>;
export type VhostStub = ReturnType<Env['VHOST']['get']>;
