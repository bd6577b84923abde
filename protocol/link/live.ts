/** Keep-alive timing of a link, and the close codes with which an object ends one. */

/**
 * The bridge pings at this interval. A socket without a sign of life for `SIGN_OF_LIFE_MS` counts as
 * half-open and is closed.
 */
export const PING_INTERVAL_MS = 20_000;
export const SIGN_OF_LIFE_MS = 60_000;
/** If a frame is not answered within this time, the link is lost. */
export const ANSWER_TIMEOUT_MS = 10_000;
/** A client that has sent no byte for this long, not even a ping, is not live [C-3.10]. */
export const CLIENT_QUIET_MS = 90_000;
/**
 * The bridge reports a client that has published nothing for this long. Because of this report the Site needs
 * no alarm, which would cost a row, while devices publish. Two such periods plus the bridge's check interval
 * are shorter than the minute between telemetry events.
 */
export const NO_PUBLISH_MS = 25_000;
export const PING = 'ping';
export const PONG = 'pong';

/** Why an object closes a link. The bridge translates each code into the client's protocol. */
export const CLOSE_CODES = {
  /** Another session or another start of the bridge took over, the bridge was silent, or the device was moved. */
  takenOver: 4001,
  /**
   * The credential was revoked, or its device or organization was suspended, decommissioned or deleted: do not
   * reconnect with it now.
   */
  revoked: 4003,
  /** The credential has expired. */
  expired: 4008,
  /** The peer violated the link protocol, or the object could not handle a frame. */
  protocolError: 4400,
} as const;
