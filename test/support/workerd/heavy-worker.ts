/**
 * The product's Worker with a Site to which a test can add many journal rows at once. The rows are the ones that the
 * Site itself would write; a device would need hours to send so much.
 */
import { formatEntry, type JournalEntry } from '../../../durable-objects/site/telemetry/entry.ts';
import { Site as ProductSite } from '../../../durable-objects/site.ts';
import { Vhost } from '../../../durable-objects/vhost.ts';
import worker from '../../../worker/index.ts';
import type { Filling } from '../filling.ts';

export { Metrics } from '../../../durable-objects/metrics.ts';
export { RequestCounter } from '../../../durable-objects/request-counter.ts';
export { Watches } from '../../../durable-objects/watches.ts';

const BLOCK_CHARS = 8 * 1024;

export class Site extends ProductSite {
  /** Appends blocks to the journal. The object must leave memory before it is used: it does not know of them. */
  fillJournal({ deviceId, messages, chars, fromMs, untilMs }: Filling): void {
    const { storage } = this.ctx;
    const dataText = signals(chars);
    storage.transactionSync(() => {
      let block = '';
      const [end] = storage.sql
        .exec<{ id: number; at: number }>(
          'SELECT id, starts_at + size AS at FROM journal_block ORDER BY id DESC LIMIT 1',
        )
        .toArray();
      let { id, at } = end ?? { id: 0, at: 0 };
      for (let index = 0; index < messages; index++) {
        const ts = Math.round(fromMs + ((untilMs - fromMs) * index) / messages);
        const nonce = crypto.randomUUID();
        const digest = nonce.replaceAll('-', '').slice(0, 16);
        const entry: JournalEntry = {
          receivedMs: ts,
          deviceId,
          topic: 'telemetry',
          ts,
          nonce,
          digest,
          dataText,
        };
        block += formatEntry(entry);
        if (block.length < BLOCK_CHARS && index < messages - 1) continue;
        id += 1;
        storage.sql.exec(
          `INSERT INTO journal_block (id, opened_at_ms, last_at_ms, starts_at, size, event_at_ms, data)
           VALUES (?, ?, ?, ?, ?, ?, ?)`,
          id,
          ts,
          ts,
          at,
          block.length,
          ts,
          block,
        );
        at += block.length;
        block = '';
      }
    });
  }
}

export { Vhost };
export default worker;

/** Up to a thousand signals in about that many characters. */
function signals(chars: number): string {
  const count = Math.max(1, Math.min(1_000, Math.floor(chars / 20)));
  const width = Math.floor(chars / count) - 14;
  const named = Array.from({ length: count }, (_none, index) => [
    `${'x'.repeat(Math.max(1, width))}-${index}`,
    index,
  ]);
  return JSON.stringify(Object.fromEntries(named));
}
