/** Queues of chunks alone, in the storage of a vhost of a test. */
import { ChunkedQueue } from '../../../durable-objects/vhost/queue/chunked-queue.ts';
import { limitsOf } from '../../../durable-objects/vhost/queue/queue.ts';
import type { QueueRows } from '../../../durable-objects/vhost/queue/rows.ts';

/** The telemetry queue, as what is stored makes it. */
export function telemetryQueue(rows: QueueRows, isConnected: (id: string) => boolean): ChunkedQueue {
  const chunks = rows.chunks();
  let position = chunks.at(-1)?.position ?? 0;
  return new ChunkedQueue({
    key: 'event.telemetry',
    rows,
    chunks,
    nextPosition: () => {
      position += 1;
      return position;
    },
    limits: limitsOf('event.telemetry'),
    isExact: false,
    deadLetter: () => {},
    isConnected,
  });
}
