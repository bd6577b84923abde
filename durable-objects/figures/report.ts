/**
 * What objects tell the Figures object: each time all that they have counted since they began, and all that they hold. So
 * a report that is lost costs nothing once the next one comes, and one that comes twice counts once.
 */
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

export interface Report {
  /** The object's id. */
  object: string;
  class: 'Site' | 'Vhost';
  /** By its clock: one that comes behind a later one is not taken. */
  atMs: number;
  counts: Counts;
  /** Absent: it has none. */
  queues?: KeyQueues | undefined;
  /** It tells nothing any more: what it counted stays counted. */
  isOver?: boolean;
}

export interface FiguresRpc {
  report(report: Report): void;
  /** Counts that came since the last call, of who keeps none: a call whose answer is lost may count twice. */
  add(counts: Counts): void;
  /** All of it, in Prometheus' text format. `version`: what is deployed. */
  expose(version: string): string;
}

/** There is one. */
export const FIGURES_NAME = 'figures';
