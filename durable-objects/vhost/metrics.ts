/** The metrics of a vhost: messages in its queues, their age, and the messages that were dropped. */
import { QUEUE_DROPS } from '../metrics/families.ts';
import type { KeyQueues, QueueMetrics, Reported } from '../metrics/report.ts';
import type { VhostParts } from './parts.ts';
import type { Queue } from './queue/queue.ts';

/** The label of all partner queues of a key together. The names of platform queues begin with `vcp.`. */
const PARTNER_QUEUES = 'own';

export class VhostMetrics implements Reported {
  readonly class = 'Vhost';
  readonly clock: VhostParts['clock'];
  readonly #vhost: VhostParts;
  #queuesMark = '';

  constructor(vhost: VhostParts) {
    this.#vhost = vhost;
    this.clock = vhost.clock;
  }

  mark(): string {
    return `${this.#state()}|${this.#markOfQueues()}`;
  }

  report(): ReturnType<Reported['report']> {
    const state = this.#state();
    if (state === 'open') return { queues: this.#queues() };
    return { isOver: state === 'over' };
  }

  /** Queues start to fill at the key's first connection [C-6.1]. */
  #state(): 'new' | 'open' | 'over' {
    const { key } = this.#vhost;
    if (!key.record) return 'new';
    if (this.#vhost.hasEnded()) return 'over';
    return key.record.firstConnectedAtMs === null ? 'new' : 'open';
  }

  /**
   * While no message waits and events are only in memory, the mark does not change: clients acknowledge most
   * events in milliseconds, and a report for each would cost an alarm.
   */
  #markOfQueues(): string {
    const { broker, hasUnstored } = this.#vhost;
    const queues = broker.queues.all();
    const isWaiting = queues.some(({ readyCount }) => readyCount > 0);
    if (isWaiting || !hasUnstored) {
      const marks = queues.map((queue) => {
        const { limit, age, deliveries, rejected } = queue.drops.counts;
        return [queue.readyCount, broker.unackedCount(queue), limit + age + deliveries + rejected].join('/');
      });
      this.#queuesMark = [isWaiting ? broker.published : '', ...marks].join(' ');
    }
    return this.#queuesMark;
  }

  #queues(): KeyQueues {
    const { key, broker } = this.#vhost;
    const { slug: organization = '', keyId = '' } = key.record ?? {};
    const partner = broker.queues.partner.all().map(({ queue }) => queue);
    const others = broker.queues.all().filter((queue) => !partner.includes(queue));
    const queues = others.map((queue) => this.#metricsOf(queue));
    const together = partner.length > 0 ? [sumOf(partner.map((queue) => this.#metricsOf(queue)))] : [];
    return { organization, key: keyId, queues: [...queues, ...together] };
  }

  #metricsOf(queue: Queue): QueueMetrics {
    const { broker } = this.#vhost;
    const { counts } = queue.drops;
    const dropped = QUEUE_DROPS.filter((reason) => counts[reason] > 0);
    return {
      queue: broker.queues.fullName(queue.key),
      ready: queue.readyCount,
      unacked: broker.unackedCount(queue),
      oldestMs: queue.openSinceMs ?? null,
      drops: Object.fromEntries(dropped.map((reason) => [reason, counts[reason]])),
    };
  }
}

/**
 * Adds up the partner queues of a key as one series, because partners choose their names and there may be
 * many.
 */
function sumOf(all: readonly QueueMetrics[]): QueueMetrics {
  const oldest = all.flatMap(({ oldestMs }) => oldestMs ?? []);
  const dropped = QUEUE_DROPS.map((reason) => {
    const count = all.reduce((sum, { drops }) => sum + (drops[reason] ?? 0), 0);
    return [reason, count] as const;
  });
  return {
    queue: PARTNER_QUEUES,
    ready: all.reduce((sum, { ready }) => sum + ready, 0),
    unacked: all.reduce((sum, { unacked }) => sum + unacked, 0),
    oldestMs: oldest.length === 0 ? null : Math.min(...oldest),
    drops: Object.fromEntries(dropped.filter(([, count]) => count > 0)),
  };
}
