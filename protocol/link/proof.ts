/** The upgrade of a link: its paths, its headers, and what a bridge proves of itself (rule 1). */
import { z } from 'zod';

/** The client property that carries a probe's nonce. */
export const PROBE_PROPERTY = 'sitewire_probe';

/** `mqttUncounted`: the client's address is throttled, a refusal of it counts against no device [C-3.11]. */
export const LINK_PATHS = {
  amqp: '/link/amqp',
  mqtt: '/link/mqtt',
  mqttUncounted: '/link/mqtt/uncounted',
} as const;
/** What a bridge asks whether its proof is good: 204 then; without one it does not exist either. */
export const READY_PATH = '/link/ready';
export const PROOF_HEADER = 'sitewire-bridge';
/** On a 404 to a proof whose secret is right and whose time is not: the edge's own time, epoch milliseconds. */
export const CLOCK_HEADER = 'sitewire-clock';
/** What an accepted AMQP upgrade answers: the vhost and slug of the credential. */
export const VHOST_HEADER = 'sitewire-vhost';
/** The scopes of the credential, separated by commas: with them the bridge judges publishes in their order. */
export const SCOPES_HEADER = 'sitewire-scopes';
/** Which version of the frames a bridge speaks; one that does not say speaks the first. */
export const LINK_VERSION_HEADER = 'sitewire-link';
export const LINK_VERSION = 5;
export const PROOF_TOLERANCE_MS = 60_000;

/** What a bridge says of a client's connection when it dials (rule 1). */
export const bridgeProof = z.strictObject({
  bridge: z.string().regex(/^[A-Za-z0-9._-]{1,64}$/),
  boot: z.string().regex(/^[A-Za-z0-9-]{1,64}$/),
  connection: z.string().regex(/^[A-Za-z0-9-]{1,64}$/),
  address: z.string().regex(/^[0-9a-fA-F:.]{2,45}$/),
  /** SHA-256 of the client certificate in hex; empty without one. */
  fingerprint: z.string().regex(/^([0-9a-f]{64})?$/),
  timeMs: z.int().positive(),
  /** The nonce of a new key's probe, as its client said it; empty for everybody else [C-5.4]. */
  probe: z
    .string()
    .regex(/^([0-9a-f]{32})?$/)
    .default(''),
});
export type BridgeProof = z.infer<typeof bridgeProof>;

/** What the bridge's MAC covers: path and credential too, so a proof opens nothing but what it was made for. */
export function proofSigningString(proof: BridgeProof, path: string, authorization: string): string {
  const { bridge, boot, connection, address, fingerprint, timeMs, probe } = proof;
  return [
    'sitewire-bridge',
    bridge,
    boot,
    connection,
    address,
    fingerprint,
    timeMs,
    ...(probe === '' ? [] : [probe]),
    path,
    authorization,
  ].join('\n');
}

/** `proof` as a header value, its MAC last. Without a probe it is as an edge of before reads it. */
export function formatProof(proof: BridgeProof, mac: string): string {
  const { bridge, boot, connection, address, fingerprint, timeMs, probe } = proof;
  const probes = probe === '' ? [] : [probe];
  return [bridge, boot, connection, address, fingerprint, timeMs, ...probes, mac].join(';');
}

export function parseProof(header: string): { proof: BridgeProof; mac: string } | undefined {
  const [bridge, boot, connection, address, fingerprint, timeMs, ...ending] = header.split(';');
  const mac = ending.pop();
  const [probe = '', ...rest] = ending;
  if (!mac || !/^[0-9a-f]{64}$/.test(mac) || rest.length > 0) return undefined;
  if (!timeMs || !/^[1-9]\d{0,14}$/.test(timeMs)) return undefined;
  const parsed = bridgeProof.safeParse({
    bridge,
    boot,
    connection,
    address,
    fingerprint,
    timeMs: Number(timeMs),
    probe,
  });
  return parsed.success ? { proof: parsed.data, mac } : undefined;
}
