/** How this bridge proves itself to the edge (rule 1). */
import { createHmac, randomUUID } from 'node:crypto';
import {
  type BridgeProof,
  formatProof,
  PROOF_HEADER,
  proofSigningString,
  READY_PATH,
} from '../protocol/link/proof.ts';
import { judgeRefusal } from './refusal.ts';

/** Where the edge is and who this bridge is. */
export interface Edge {
  /** http(s) base of the Worker. */
  url: string;
  secret: string;
  bridge: string;
  boot: string;
}

/** Whose connection it is. */
type Client = Pick<BridgeProof, 'connection' | 'address' | 'fingerprint' | 'probe'>;

/** Fresh, for one dial of that path with that credential. */
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
  return { [PROOF_HEADER]: formatProof(proof, mac) };
}

const READY_TIMEOUT_MS = 2_000;

/** Why no client could be let in at present; undefined when the edge answers and takes this bridge's proof. */
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
    return `the edge is not reached: ${reasonOf(error)}`;
  }
}

/** `fetch` hides why behind what it failed at. */
function reasonOf(error: unknown): string {
  const { cause, message } = error as Error & { cause?: unknown };
  return cause instanceof Error ? cause.message : message;
}
