/** What a key does now, for the people of its organization. It is read, so it costs no row. */
import type { Acknowledgement } from '../../../protocol/event.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import {
  type KeyQueue,
  type KeyRejection,
  type KeyStatus,
  REJECTIONS_SHOWN,
} from '../../../protocol/key-status.ts';
import type { EventJournal } from '../journal/journal.ts';
import type { JournalEvent } from '../journal/line.ts';
import type { VhostParts } from '../parts.ts';
import type { Queue } from '../queue/queue.ts';

/** Null: the key has ended, or was not opened here. */
export function readStatus(vhost: VhostParts): KeyStatus | null {
  const { key, sockets, broker, journal } = vhost;
  if (!key.record || vhost.hasEnded()) return null;
  return {
    connections: sockets.places().map(({ address, connectedAtMs }) => ({
      ...{ address, connectedAt: formatInstant(connectedAtMs) },
    })),
    queues: broker.queues.all().map((queue) => queueOf(vhost, queue)),
    lastRejections: lastRejections(journal),
  };
}

function queueOf({ broker }: VhostParts, queue: Queue): KeyQueue {
  const { limit, age, deliveries, rejected } = queue.drops.counts;
  const { openSinceMs } = queue;
  return {
    name: broker.queues.fullName(queue.key),
    ready: queue.readyCount,
    unacked: broker.unackedCount(queue),
    consumers: broker.consumers.ofQueue(queue.key).length,
    oldestAt: openSinceMs === undefined ? null : formatInstant(openSinceMs),
    dropped: limit + age + deliveries + rejected,
  };
}

/** The newest rejections in the last rows of the journal. */
function lastRejections(journal: EventJournal): KeyRejection[] {
  return journal.newest('ack').flatMap(rejectionOf).slice(0, REJECTIONS_SHOWN);
}

function rejectionOf({ siteId, body }: JournalEvent): KeyRejection[] {
  if (!body.includes('"REJECTED"')) return [];
  const { timestamp, payload } = JSON.parse(body) as { timestamp: string; payload: Acknowledgement };
  const { commandType, rejectionCode, message = null } = payload;
  return rejectionCode ? [{ at: timestamp, siteId, commandType, rejectionCode, message }] : [];
}
