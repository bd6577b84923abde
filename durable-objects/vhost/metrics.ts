/** The metrics of a vhost: messages in its queues, their age, and the messages that were dropped. */
import { QUEUE_DROPS } from '../metrics/families.ts';
import type { KeyQueues, QueueMetrics, Reported } from '../metrics/report.ts';
import type { VhostParts } from './parts.ts';
import type { Queue } from './queue/queue.ts';

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
   * Messages that clients take at once do not change the mark: most are acknowledged in milliseconds and cost
   * no alarm.
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
    return { organization, key: keyId, queues: broker.queues.all().map((queue) => this.#metricsOf(queue)) };
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
