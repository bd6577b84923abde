/**
 * The telemetry journal: messages as they came, appended to blocks of five minutes or 64 KB. A block carries data
 * and nonces in one row, so a message costs one row written; the price is reading blocks back to find one signal.
 */
import { signableJson } from '../../../protocol/compact-json.ts';
import { BLOCK_CHARS, BLOCK_MS, type JournalEntry, type SiteStorage } from '../storage.ts';

export function formatEntry(entry: JournalEntry): string {
  const { receivedMs, deviceId, topic, ts, nonce, digest, dataText } = entry;
  return `[${receivedMs},"${deviceId}","${topic}",${ts},${signableJson(nonce)},"${digest}",${dataText}]\n`;
}

export function parseEntries(data: string): JournalEntry[] {
  return data
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [receivedMs, deviceId, topic, ts, nonce, digest, value] = JSON.parse(line) as [
        number,
        string,
        JournalEntry['topic'],
        number,
        string,
        string,
        unknown,
      ];
      return { receivedMs, deviceId, topic, ts, nonce, digest, dataText: JSON.stringify(value) };
    });
}

export interface BlockHead {
  id: number;
  openedAtMs: number;
  size: number;
  /** When the last telemetry event went to partners: rides in the same row, for nothing. */
  eventAtMs: number;
}

export function readHead(storage: SiteStorage): BlockHead | undefined {
  const row = storage.openBlock();
  return row && { id: row.id, openedAtMs: row.opened_at_ms, size: row.size, eventAtMs: row.event_at_ms };
}

/**
 * Appends entries inside the caller's transaction and returns the new head. `onRollover` is called when a block
 * closes: what was derived from it is stored then.
 */
export function append(
  storage: SiteStorage,
  head: BlockHead | undefined,
  entries: readonly JournalEntry[],
  now: number,
  eventAtMs: number,
  onRollover: () => void,
): BlockHead | undefined {
  let current = head;
  let pending = '';
  const flush = () => {
    if (!current || pending === '') return;
    storage.appendToBlock(current.id, pending, now, eventAtMs);
    current = { ...current, size: current.size + pending.length, eventAtMs };
    pending = '';
  };
  for (const entry of entries) {
    const line = formatEntry(entry);
    const full = current !== undefined && current.size + pending.length >= BLOCK_CHARS;
    const old = current !== undefined && now - current.openedAtMs >= BLOCK_MS;
    if (current && !full && !old) {
      pending += line;
      continue;
    }
    flush();
    if (current) onRollover();
    const id: number = (current?.id ?? 0) + 1;
    storage.insertBlock({ id, opened_at_ms: now, last_at_ms: now, event_at_ms: eventAtMs, data: line });
    current = { id, openedAtMs: now, size: line.length, eventAtMs };
  }
  flush();
  return current;
}
