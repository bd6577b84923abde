/** The pulse of a link, and the words with which an object ends one. */

/** The bridge pings this often; a socket without a sign of life for the longer time is dead. */
export const PING_INTERVAL_MS = 20_000;
export const SIGN_OF_LIFE_MS = 60_000;
/** A batch that stays unanswered this long means that the link is lost. */
export const ANSWER_TIMEOUT_MS = 10_000;
/** A client that no byte came from for this long, not even a ping, is not live [C-3.10]. */
export const CLIENT_QUIET_MS = 90_000;
/**
 * While a client publishes, its bridge watches for the end of it: a site that is told needs no alarm of its own, each of
 * which is a row. Two of them, and the time between two looks, are less than the pulse of telemetry events.
 */
export const LULL_MS = 25_000;
export const PING = 'ping';
export const PONG = 'pong';

/** Why an object closes a link. The bridge turns each into its client's protocol. */
export const CLOSE_CODES = {
  /** Another session of the same device took over. */
  takenOver: 4001,
  /** The credential was revoked, suspended or decommissioned: do not come back with it. */
  revoked: 4003,
  /** The credential's own time is over. */
  expired: 4008,
  /** The peer broke the link's rules. */
  protocolError: 4400,
} as const;
