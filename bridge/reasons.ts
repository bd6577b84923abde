/** Why clients are not let in and why connections end: closed lists, the labels of metrics and the words of the log. */
import { CLOSE_CODES } from '../protocol/link/live.ts';

/** What ends a client at any time: itself, what it says, our patience, a fault of ours, or that the bridge stops. */
export const OWN_REASONS = ['client', 'protocol', 'timeout', 'fault', 'stopping'] as const;
/** Why a login is not accepted: by the edge, or by the bridge in its place. */
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
/** Why the object of a client that was let in ended it. */
export const LINK_REASONS = ['taken-over', 'revoked', 'expired', 'link'] as const;

export const REFUSAL_REASONS = [...LOGIN_REASONS, ...OWN_REASONS] as const;
export const END_REASONS = [...LINK_REASONS, ...OWN_REASONS] as const;

export type OwnReason = (typeof OWN_REASONS)[number];
export type LoginReason = (typeof LOGIN_REASONS)[number];
export type LinkReason = (typeof LINK_REASONS)[number];
export type RefusalReason = (typeof REFUSAL_REASONS)[number];
export type EndReason = (typeof END_REASONS)[number];

/** What a publish came to: stored, not stored and to be sent again, or not to be sent again. */
export const PUBLISH_RESULTS = ['confirmed', 'nacked', 'refused'] as const;
export type PublishResult = (typeof PUBLISH_RESULTS)[number];

/** What the code of a link's end says. */
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

/** What an error of a client's stream or of its parser says: one of a socket has a code, what a client says has none. */
export function streamReason(error: Error): OwnReason {
  if ('code' in error) return 'client';
  return /timeout|in time/.test(error.message) ? 'timeout' : 'protocol';
}
