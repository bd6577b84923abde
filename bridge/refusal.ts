/** Interprets the edge's answer to a dial that it did not accept (rule 7). */
import { ERROR_STATUS } from '../protocol/errors.ts';
import { CLOCK_HEADER, PROBE_HEADER, STATE_HEADER } from '../protocol/link/proof.ts';
import type { LoginReason } from './reasons.ts';

/**
 * The result of a dial that opened no link. `refused`: the edge rejected the client; `unproven`: the edge
 * rejected the bridge proof; `trouble`: any other failure.
 */
export type NoLink =
  /**
   * `isProbe`: the dial was the connection test of a key. `isState`: the credential is good, but the state of the device
   * or key is not.
   */
  (
    | {
        outcome: 'refused';
        status: number;
        code: string;
        message: string;
        isProbe?: true;
        isState?: true;
      }
    | { outcome: 'unproven' | 'trouble'; reason: string }
  ) & {
    /** Set if the bridge answered without a dial to the edge, with the limit that was reached. */
    unasked?: 'throttled' | 'crowded';
  };

/** An HTTP answer of the edge; header names are in lower case. */
export interface EdgeAnswer {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  body: string;
}

/**
 * Only a 401, 403 or 409 with a code of our error envelope is a rejection; a firewall's HTML 403 is a
 * failure. The link paths exist only for authenticated bridges: a 404 with our envelope means that the edge
 * rejected the bridge proof.
 */
export function judgeRefusal({ status, headers, body }: EdgeAnswer): NoLink {
  const envelope = readEnvelope(body);
  if (envelope && [401, 403, 409].includes(status)) {
    const probe = headers[PROBE_HEADER] === undefined ? {} : { isProbe: true as const };
    const state = headers[STATE_HEADER] === undefined ? {} : { isState: true as const };
    return { outcome: 'refused', status, ...envelope, ...probe, ...state };
  }
  if (envelope?.code === 'NOT_FOUND' && status === 404)
    return { outcome: 'unproven', reason: whyUnproven(headers) };
  const why = envelope ? `: ${envelope.message}` : '';
  return { outcome: 'trouble', reason: `the edge answered ${status}${why}` };
}

/** The reason from the closed list. Missing scope and wrong address differ only in the edge's message. */
export function loginReason(noLink: NoLink): LoginReason {
  if (noLink.unasked) return noLink.unasked;
  if (noLink.outcome !== 'refused') return noLink.outcome;
  if (noLink.status === 409) return 'limit';
  if (noLink.status !== 403) return 'credential';
  if (/scope/.test(noLink.message)) return 'scope';
  return /address/.test(noLink.message) ? 'address' : 'credential';
}

/** The reason that the client may learn, because it has the credential; undefined if it may not. */
export function shownReason(noLink: NoLink): string | undefined {
  if (noLink.outcome !== 'refused' || noLink.unasked) return undefined;
  return noLink.isState || noLink.status === 403 ? noLink.message : undefined;
}

/** Returns the reason as a text for people. */
export function wordsOf(noLink: NoLink): string {
  return noLink.outcome === 'refused' ? noLink.message : noLink.reason;
}

function whyUnproven(headers: EdgeAnswer['headers']): string {
  const edgeMs = Number(headers[CLOCK_HEADER] ?? Number.NaN);
  if (Number.isNaN(edgeMs))
    return "the edge rejected the bridge proof: SITEWIRE_BRIDGE_SECRET must be one of the edge's BRIDGE_SECRET values";
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
