/** What is told to the Figures object: counts as they come, each once, and what an object holds, all of it each time. */
import type { Counts, QueueDrop } from './families.ts';

export interface QueueFigures {
  queue: string;
  /** Messages that wait for a consumer, and those that one holds. */
  ready: number;
  unacked: number;
  /** When the oldest of all these came; null when there is none. */
  oldestMs: number | null;
  /** Since the queue began. */
  drops: Readonly<Partial<Record<QueueDrop, number>>>;
}

/** The queues of a key, and whose they are. */
export interface KeyQueues {
  organization: string;
  key: string;
  queues: QueueFigures[];
}

/** A sign of work, with the queues that there are; one that is lost costs nothing once the next one comes. */
export interface Report {
  /** The object's id. */
  object: string;
  class: 'Site' | 'Vhost';
  /** By its clock: one that comes behind a later one is not taken. */
  atMs: number;
  /** Absent: it has none. */
  queues?: KeyQueues | undefined;
  /** It tells nothing any more. */
  isOver?: boolean;
}

export interface FiguresRpc {
  report(report: Report): void;
  /** What was counted since the last call: one whose answer is lost may count twice. */
  add(counts: Counts): void;
  /** All of it, in Prometheus' text format. `version`: what is deployed. */
  expose(version: string): string;
}
