/** The dial of a link: its paths, its headers, and the proof that authenticates the bridge (rule 1). */
import * as z from 'zod';

/** The AMQP client property that carries the nonce of a connection test. */
export const PROBE_PROPERTY = 'sitewire_probe';
/**
 * Set on a refusal of a client whose credential is good, for example because its device is SUSPENDED or its key expired:
 * its message may be shown to the client.
 */
export const STATE_HEADER = 'sitewire-state';
/**
 * Header in the answer to a rejected dial: the dial had the valid nonce of a key's connection test, so it did
 * not come from a stranger.
 */
export const PROBE_HEADER = 'sitewire-probe';

/** `mqttUncounted`: the client's address counts as guessing, so a refusal does not count against a device [C-3.11]. */
export const LINK_PATHS = {
  amqp: '/link/amqp',
  mqtt: '/link/mqtt',
  mqttUncounted: '/link/mqtt/uncounted',
} as const;
/**
 * A bridge asks here whether the edge accepts its proof: 204 if so, else 404 like any unknown path. A bridge
 * whose link version the edge does not serve gets 400.
 */
export const READY_PATH = '/link/ready';
export const PROOF_HEADER = 'sitewire-bridge';
/** The edge's time in epoch milliseconds, sent with the 404 if only the time of a proof is wrong. */
export const CLOCK_HEADER = 'sitewire-clock';
/** In the answer to an accepted AMQP dial: the vhost of the API key. */
export const VHOST_HEADER = 'sitewire-vhost';
/** The scopes of the API key, separated by commas. The bridge needs them to authorize publishes in their order. */
export const SCOPES_HEADER = 'sitewire-scopes';
/** In the dial: the version of the frames that the bridge speaks. */
export const LINK_VERSION_HEADER = 'sitewire-link';
export const LINK_VERSION = 1;
export const PROOF_TOLERANCE_MS = 60_000;

/** The data about a client's connection that a bridge signs in its dial (rule 1). */
const bridgeProof = z.strictObject({
  bridge: z.string().regex(/^[A-Za-z0-9._-]{1,64}$/),
  boot: z.string().regex(/^[A-Za-z0-9-]{1,64}$/),
  connection: z.string().regex(/^[A-Za-z0-9-]{1,64}$/),
  address: z.string().regex(/^[0-9a-fA-F:.]{2,45}$/),
  /** SHA-256 of the client certificate in hex; empty if the client has none. */
  fingerprint: z.string().regex(/^([0-9a-f]{64})?$/),
  timeMs: z.int().positive(),
  /** The nonce of a key's connection test, from the client properties; empty for all other clients [C-5.4]. */
  probe: z.string().regex(/^([0-9a-f]{32})?$/),
});
export type BridgeProof = z.infer<typeof bridgeProof>;
const NAMES = bridgeProof.keyof().options;

/** The versions that the edge serves: the current one, and the one before, because bridges are updated later. */
export function servedLinkVersions(current: number = LINK_VERSION): number[] {
  return [current, current - 1].filter((version) => version > 0);
}

/** The values of a proof in the order of its schema, which is their order in the header and in the signed text. */
function valuesOf(proof: BridgeProof): (string | number)[] {
  return NAMES.map((name) => proof[name]);
}

/** The text that the MAC covers. It includes path and credential, so a proof fits no other dial. */
export function proofSigningString(proof: BridgeProof, path: string, authorization: string): string {
  return ['sitewire-bridge', ...valuesOf(proof), path, authorization].join('\n');
}

/** The header value of `proof`, with the MAC last. */
export function formatProof(proof: BridgeProof, mac: string): string {
  return [...valuesOf(proof), mac].join(';');
}

export function parseProof(header: string): { proof: BridgeProof; mac: string } | undefined {
  const values = header.split(';');
  const mac = values.pop() ?? '';
  if (!/^[0-9a-f]{64}$/.test(mac) || values.length !== NAMES.length) return undefined;
  const { timeMs = '', ...texts } = Object.fromEntries(NAMES.map((name, index) => [name, values[index]]));
  if (!/^[1-9]\d{0,14}$/.test(timeMs)) return undefined;
  const parsed = bridgeProof.safeParse({ ...texts, timeMs: Number(timeMs) });
  return parsed.success ? { proof: parsed.data, mac } : undefined;
}
