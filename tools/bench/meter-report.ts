/** What the metered Worker reports of its objects: sums since its start. Imported by both benchmark and Worker. */

export type ObjectKind = 'Site' | 'Vhost';

export interface MeterReport {
  /** Number of constructor calls: the first one, and one for each return from hibernation. */
  wakes: number;
  /**
   * Milliseconds in which the object could not hibernate, because a handler or work in waitUntil was running
   * or a timer was set.
   */
  busyMs: number;
  /** The part of `busyMs` in which handlers were running; the rest is timers and waitUntil. */
  handlerMs: number;
  /** Calls by name: webSocketMessage, alarm, fetch and the RPC methods. */
  calls: Record<string, number>;
  /** Rows written by SQL, by the name of the call that wrote them. */
  rows: Record<string, number>;
  /** Number of `setAlarm` calls; each is billed as a row written. */
  alarmsSet: number;
  /**
   * Idle periods of more than 10 s, and how many of them ended with a new construction, that is, in
   * hibernation.
   */
  longIdles: number;
  hibernated: number;
  /** What prevents hibernation at the moment. */
  heldBy: string[];
}

export const METERS_PATH = '/bench/meters';
