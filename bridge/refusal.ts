/** What the edge's answer to an upgrade that it did not accept means (rule 7). */
import { ERROR_STATUS } from '../protocol/errors.ts';
import { CLOCK_HEADER } from '../protocol/link/proof.ts';
import type { LoginReason } from './reasons.ts';

/**
 * A dial that gave no link: a refusal is the edge's own word about the client, `unproven` its word about this bridge;
 * everything else that fails is trouble.
 */
export type NoLink = (
  | { outcome: 'refused'; status: number; code: string; message: string }
  | { outcome: 'unproven' | 'trouble'; reason: string }
) & {
  /** Nobody was asked: the bridge answers by itself. */
  unasked?: 'throttled' | 'crowded';
};

/** What an edge answered, by its header names in lower case. */
export interface EdgeAnswer {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  body: string;
}

/**
 * Only a 401, 403 or 409 with a code of our envelope is a refusal; a firewall's HTML 403 is trouble. The link paths
 * exist for who proves itself alone: our own 404 says that the proof was not taken.
 */
export function judgeRefusal({ status, headers, body }: EdgeAnswer): NoLink {
  const envelope = readEnvelope(body);
  if (envelope && [401, 403, 409].includes(status)) return { outcome: 'refused', status, ...envelope };
  if (envelope?.code === 'NOT_FOUND' && status === 404)
    return { outcome: 'unproven', reason: whyUnproven(headers) };
  return { outcome: 'trouble', reason: `the edge answered ${status}` };
}

/** Its reason in the closed list. The edge tells a scope and an address by its words alone. */
export function loginReason(noLink: NoLink): LoginReason {
  if (noLink.unasked) return noLink.unasked;
  if (noLink.outcome !== 'refused') return noLink.outcome;
  if (noLink.status === 409) return 'limit';
  if (noLink.status !== 403) return 'credential';
  if (/scope/.test(noLink.message)) return 'scope';
  return /address/.test(noLink.message) ? 'address' : 'credential';
}

/** What it says for a person. */
export function wordsOf(noLink: NoLink): string {
  return noLink.outcome === 'refused' ? noLink.message : noLink.reason;
}

function whyUnproven(headers: EdgeAnswer['headers']): string {
  const edgeMs = Number(headers[CLOCK_HEADER] ?? Number.NaN);
  if (Number.isNaN(edgeMs))
    return "the edge does not take this bridge's proof: is SITEWIRE_BRIDGE_SECRET one of its BRIDGE_SECRET?";
  const seconds = Math.round((Date.now() - edgeMs) / 1_000);
  return `this bridge's clock is ${Math.abs(seconds)} s ${seconds > 0 ? 'ahead of' : 'behind'} the edge's`;
}

function readEnvelope(body: string): { code: string; message: string } | undefined {
  try {
    const { code, message } = JSON.parse(body) as { code?: unknown; message?: unknown };
    if (typeof code !== 'string' || !Object.hasOwn(ERROR_STATUS, code)) return undefined;
    return { code, message: typeof message === 'string' ? message : '' };
  } catch {
    return undefined;
  }
}
