/** The bridge's configuration: environment variables, checked once at start. docs/operations.md lists them. */
import * as z from 'zod';
import { isRange } from '../protocol/address-range.ts';

const port = z.coerce.number().int().min(0).max(65_535);
const ranges = z
  .string()
  .transform((text) => (text.trim() === '' ? [] : text.split(',').map((range) => range.trim())))
  .pipe(z.array(z.string().refine(isRange, { error: 'must be comma-separated addresses or CIDR ranges' })));

const variables = z.object({
  SITEWIRE_EDGE_URL: z
    .url({ protocol: /^https?$/ })
    .refine(isProtected, { error: 'must begin with https:// unless its host is this machine' }),
  SITEWIRE_BRIDGE_SECRET: z.string().min(32),
  /** Unique per bridge: when a bridge with this id starts, the connections of its previous boot end. */
  SITEWIRE_BRIDGE_ID: z.string().regex(/^[A-Za-z0-9._-]{1,64}$/),
  SITEWIRE_TLS_CERT: z.string(),
  SITEWIRE_TLS_KEY: z.string(),
  /** The CA of device certificates; without it there is no listener for them. */
  SITEWIRE_DEVICE_CA: z.string().optional(),
  SITEWIRE_HOST: z.string().default('::'),
  /** Addresses of trusted proxies: every connection from them must begin with a PROXY header. */
  SITEWIRE_PROXIES: ranges.default([]),
  SITEWIRE_AMQPS_PORT: port.default(5671),
  SITEWIRE_MQTTS_PORT: port.default(8885),
  SITEWIRE_MTLS_PORT: port.default(8883),
  SITEWIRE_METRICS_HOST: z.string().default('127.0.0.1'),
  SITEWIRE_METRICS_PORT: port.default(9464),
  SITEWIRE_LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
});

/**
 * Whether the URL uses TLS or names this machine. Keys and tokens are sent over the link, so a link to
 * another machine needs TLS.
 */
function isProtected(url: string): boolean {
  if (!url.startsWith('http://') || !URL.canParse(url)) return true;
  return /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(new URL(url).hostname);
}

const environment = variables.transform((values) => ({
  edgeUrl: values.SITEWIRE_EDGE_URL,
  secret: values.SITEWIRE_BRIDGE_SECRET,
  bridgeId: values.SITEWIRE_BRIDGE_ID,
  /** Paths of PEM files. */
  tls: { certificate: values.SITEWIRE_TLS_CERT, key: values.SITEWIRE_TLS_KEY },
  host: values.SITEWIRE_HOST,
  proxies: values.SITEWIRE_PROXIES,
  amqpsPort: values.SITEWIRE_AMQPS_PORT,
  mqttsPort: values.SITEWIRE_MQTTS_PORT,
  /** Path of the PEM file of the CA that issues the certificates of devices. */
  mtls: values.SITEWIRE_DEVICE_CA
    ? { clientAuthority: values.SITEWIRE_DEVICE_CA, port: values.SITEWIRE_MTLS_PORT }
    : undefined,
  metrics: { host: values.SITEWIRE_METRICS_HOST, port: values.SITEWIRE_METRICS_PORT },
  logLevel: values.SITEWIRE_LOG_LEVEL,
}));

export type BridgeConfig = z.infer<typeof environment>;

/** Throws an error that names every invalid variable. */
export function readConfig(given: Record<string, string | undefined>): BridgeConfig {
  const parsed = environment.safeParse(given);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) => ({ name: path.join('.'), message }));
  // The names come first because long log fields are cut.
  const names = faults.map(({ name }) => name).join(', ');
  const words = faults.map(({ name, message }) => `${name}: ${message}`).join('; ');
  throw new Error(`invalid configuration of ${names}. ${words}`);
}
