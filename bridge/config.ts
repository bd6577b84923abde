/** The bridge's configuration: environment variables, checked once at start. docs/operations.md lists them. */
import { z } from 'zod';
import { isRange } from '../protocol/address-range.ts';

const port = z.coerce.number().int().min(0).max(65_535);
const ranges = z
  .string()
  .transform((text) => (text.trim() === '' ? [] : text.split(',').map((range) => range.trim())))
  .pipe(z.array(z.string().refine(isRange, { error: 'must be addresses or CIDR ranges, a comma between' })));

const environment = z.object({
  SITEWIRE_EDGE_URL: z.url({ protocol: /^https?$/ }),
  SITEWIRE_BRIDGE_SECRET: z.string().min(32),
  /** Unique: a new boot of a name ends the connections of its older one. */
  SITEWIRE_BRIDGE_ID: z.string().regex(/^[A-Za-z0-9._-]{1,64}$/),
  SITEWIRE_TLS_CERT: z.string(),
  SITEWIRE_TLS_KEY: z.string(),
  /** The authority of device certificates; without it nothing listens for them. */
  SITEWIRE_DEVICE_CA: z.string().optional(),
  SITEWIRE_HOST: z.string().default('::'),
  /** Whose PROXY headers are believed: those at these addresses must send one. */
  SITEWIRE_PROXIES: ranges.default([]),
  SITEWIRE_AMQPS_PORT: port.default(5671),
  SITEWIRE_MQTTS_PORT: port.default(8885),
  SITEWIRE_MTLS_PORT: port.default(8883),
  SITEWIRE_METRICS_HOST: z.string().default('127.0.0.1'),
  SITEWIRE_METRICS_PORT: port.default(9464),
  SITEWIRE_LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
});

export interface BridgeConfig {
  edgeUrl: string;
  secret: string;
  bridgeId: string;
  /** PEM files. */
  tls: { certificate: string; key: string };
  host: string;
  /** Addresses and CIDR ranges of proxies that tell their clients' addresses. */
  proxies: string[];
  amqpsPort: number;
  mqttsPort: number;
  /** PEM file of the authority whose certificates devices log in with. */
  mtls?: { clientAuthority: string; port: number };
  metrics: { host: string; port: number };
  logLevel: string;
}

/** Throws with every variable that is wrong, by name. */
export function readConfig(variables: Record<string, string | undefined>): BridgeConfig {
  const parsed = environment.safeParse(variables);
  if (!parsed.success) {
    const faults = parsed.error.issues.map(({ path, message }) => ({ name: path.join('.'), message }));
    // The names first: a log line is cut.
    const names = faults.map(({ name }) => name).join(', ');
    const words = faults.map(({ name, message }) => `${name}: ${message}`).join('; ');
    throw new Error(`bad configuration of ${names}. ${words}`);
  }
  const values = parsed.data;
  return {
    edgeUrl: values.SITEWIRE_EDGE_URL,
    secret: values.SITEWIRE_BRIDGE_SECRET,
    bridgeId: values.SITEWIRE_BRIDGE_ID,
    tls: { certificate: values.SITEWIRE_TLS_CERT, key: values.SITEWIRE_TLS_KEY },
    host: values.SITEWIRE_HOST,
    proxies: values.SITEWIRE_PROXIES,
    amqpsPort: values.SITEWIRE_AMQPS_PORT,
    mqttsPort: values.SITEWIRE_MQTTS_PORT,
    ...(values.SITEWIRE_DEVICE_CA
      ? { mtls: { clientAuthority: values.SITEWIRE_DEVICE_CA, port: values.SITEWIRE_MTLS_PORT } }
      : {}),
    metrics: { host: values.SITEWIRE_METRICS_HOST, port: values.SITEWIRE_METRICS_PORT },
    logLevel: values.SITEWIRE_LOG_LEVEL,
  };
}
