/**
 * Reports to the metrics object: counts as increments, each sent once, and the state of an object's queues,
 * complete each time.
 */
import type { Counts, QueueDrop } from './families.ts';

export interface QueueFigures {
  queue: string;
  /** Messages that wait for a consumer (`ready`) and messages that are delivered but not acknowledged (`unacked`). */
  ready: number;
  unacked: number;
  /** Time of the oldest message; null if the queue is empty. */
  oldestMs: number | null;
  /** Counts since the queue was created. */
  drops: Readonly<Partial<Record<QueueDrop, number>>>;
}

/** The queues of a key, with its organization. */
export interface KeyQueues {
  organization: string;
  key: string;
  queues: QueueFigures[];
}

/** Says that an object is awake, with its queues if it has any. The next report makes up for a lost one. */
export interface Report {
  /** Durable Object id. */
  object: string;
  class: 'Site' | 'Vhost';
  /** Time by the object's clock. A report that is older than the last one is ignored. */
  atMs: number;
  /** Absent: the object has no queues. */
  queues?: KeyQueues | undefined;
  /** The object has ended and sends no further reports. */
  isOver?: boolean;
}

export interface FiguresRpc {
  report(report: Report): void;
  /** Adds counts since the last call. If the answer of a call is lost, its counts may be added twice. */
  add(counts: Counts): void;
  /** Returns all metrics in the text format of Prometheus. `version`: the deployed version. */
  expose(version: string): string;
}
