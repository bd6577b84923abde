/** What the metered Worker tells of its objects: sums since it started. Bench and Worker both read this. */

export type ObjectKind = 'Site' | 'Vhost';

export interface MeterReport {
  /** Constructor runs: the first, and one for each return from hibernation. */
  wakes: number;
  /** Ms in which the object could not hibernate: a handler ran, or work that it keeps alive, or a timer stood. */
  busyMs: number;
  /** Of them, while handlers and their promises were under way: the rest is timers and waitUntil. */
  handlerMs: number;
  /** Calls by name: webSocketMessage, alarm, fetch and the RPC methods. */
  calls: Record<string, number>;
  /** Rows written by SQL, by the call that wrote them. */
  rows: Record<string, number>;
  /** Each is billed as a row written. */
  alarmsSet: number;
  /** Times of more than 10 s in which nothing held the object, and those after which it was indeed constructed anew. */
  longIdles: number;
  hibernated: number;
  /** What holds the object now. */
  heldBy: string[];
}

export const METERS_PATH = '/bench/meters';
