/** The bridge proof: how this bridge authenticates itself to the edge (rule 1). */
import { createHmac, randomUUID } from 'node:crypto';
import {
  type BridgeProof,
  formatProof,
  LINK_VERSION,
  LINK_VERSION_HEADER,
  PROOF_HEADER,
  proofSigningString,
  READY_PATH,
} from '../protocol/link/proof.ts';
import { judgeRefusal } from './refusal.ts';

/** Where the edge is, and the identity of this bridge. */
export interface Edge {
  /** Base URL of the Worker, http or https. */
  url: string;
  secret: string;
  bridge: string;
  boot: string;
}

/** The client connection that a proof is for. */
type Client = Pick<BridgeProof, 'connection' | 'address' | 'fingerprint' | 'probe'>;

/** The link version, and a new proof for one dial of `path` with the credential in `authorization`. */
export function proofHeaders(
  edge: Edge,
  path: string,
  authorization: string,
  client: Client,
): Record<string, string> {
  const { bridge, boot } = edge;
  const proof: BridgeProof = { bridge, boot, ...client, timeMs: Date.now() };
  const mac = createHmac('sha256', edge.secret)
    .update(proofSigningString(proof, path, authorization))
    .digest('hex');
  return { [PROOF_HEADER]: formatProof(proof, mac), [LINK_VERSION_HEADER]: String(LINK_VERSION) };
}

const READY_TIMEOUT_MS = 2_000;

/** Why this bridge cannot accept clients now; undefined if the edge answers and accepts the bridge proof. */
export async function whyNotReady(edge: Edge): Promise<string | undefined> {
  const client = { connection: randomUUID(), address: '127.0.0.1', fingerprint: '', probe: '' };
  try {
    const response = await fetch(new URL(READY_PATH, edge.url), {
      headers: proofHeaders(edge, READY_PATH, '', client),
      signal: AbortSignal.timeout(READY_TIMEOUT_MS),
    });
    if (response.status === 204) return undefined;
    const headers = Object.fromEntries(response.headers);
    const judged = judgeRefusal({ status: response.status, headers, body: await response.text() });
    return judged.outcome === 'refused' ? judged.message : judged.reason;
  } catch (error) {
    return `the edge cannot be reached: ${reasonOf(error)}`;
  }
}

/** `fetch` puts the actual reason of a failure into `cause`. */
function reasonOf(error: unknown): string {
  const { cause, message } = error as Error & { cause?: unknown };
  return cause instanceof Error ? cause.message : message;
}
