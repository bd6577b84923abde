/** Why clients are rejected and why connections end: closed lists, used as metric labels and in the log. */
import { CLOSE_CODES } from '../protocol/link/live.ts';

/**
 * Reasons that are possible at any time: the client closes, violates the protocol or times out; a bug of the
 * bridge; the bridge stops.
 */
export const OWN_REASONS = ['client', 'protocol', 'timeout', 'fault', 'stopping'] as const;
/** Reasons for which the edge, or the bridge in its place, does not accept a login. */
export const LOGIN_REASONS = [
  'credential',
  'malformed',
  'scope',
  'address',
  'vhost',
  'limit',
  'throttled',
  'crowded',
  'trouble',
  'unproven',
] as const;
/** Reasons for which the link of a connected client ends; `link`: any other one, such as a lost connection. */
export const LINK_REASONS = ['taken-over', 'revoked', 'expired', 'link'] as const;

export const REFUSAL_REASONS = [...LOGIN_REASONS, ...OWN_REASONS] as const;
export const END_REASONS = [...LINK_REASONS, ...OWN_REASONS] as const;

export type OwnReason = (typeof OWN_REASONS)[number];
export type LoginReason = (typeof LOGIN_REASONS)[number];
export type LinkReason = (typeof LINK_REASONS)[number];
export type RefusalReason = (typeof REFUSAL_REASONS)[number];
export type EndReason = (typeof END_REASONS)[number];

/**
 * Results of a publish. AMQP: stored; not confirmed as stored, so the client may send it again; rejected, it
 * may not. MQTT: handled by the Site; refused, so the client sends it again in its next session.
 */
export const PUBLISH_RESULTS = ['confirmed', 'nacked', 'refused'] as const;
export type PublishResult = (typeof PUBLISH_RESULTS)[number];

/** Returns the reason for a link's close code. */
export function linkReason(code: number): LinkReason {
  switch (code) {
    case CLOSE_CODES.takenOver:
      return 'taken-over';
    case CLOSE_CODES.revoked:
      return 'revoked';
    case CLOSE_CODES.expired:
      return 'expired';
    default:
      return 'link';
  }
}

/** Returns the reason for an error of a client's stream or parser; only errors of a socket have a `code`. */
export function streamReason(error: Error): OwnReason {
  if ('code' in error) return 'client';
  return /timeout|in time/.test(error.message) ? 'timeout' : 'protocol';
}
