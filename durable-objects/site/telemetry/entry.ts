/** A journal entry: one message as it came, as a line of its block. A line carries data and nonce in one. */
import { signableJson } from '../../../protocol/compact-json.ts';
import type { DevicePublishTopic } from '../../../protocol/topics.ts';

export interface JournalEntry {
  receivedMs: number;
  deviceId: string;
  topic: Exclude<DevicePublishTopic, 'ack'>;
  ts: number;
  nonce: string;
  /** The first 16 hex characters of the signature: tells a re-send from a replay. */
  digest: string;
  /** Raw JSON: `data` of a telemetry message, the status of a status message. */
  dataText: string;
}

export function formatEntry(entry: JournalEntry): string {
  const { receivedMs, deviceId, topic, ts, nonce, digest, dataText } = entry;
  return `[${receivedMs},"${deviceId}","${topic}",${ts},${signableJson(nonce)},"${digest}",${dataText}]\n`;
}

/** What stands before the data of a line; the nonce may hold whatever JSON escapes. */
const HEAD = /^\[(\d+),"([^"]*)","([a-z]+)",(-?\d+),("(?:[^"\\]|\\.)*"),"([0-9a-f]*)",/;

/** The entries of a block, one at a time; their data is not parsed. */
export function* parseEntries(block: string): Generator<JournalEntry> {
  for (let start = 0; start < block.length; ) {
    const end = block.indexOf('\n', start);
    const line = block.slice(start, end < 0 ? block.length : end);
    start = end < 0 ? block.length : end + 1;
    const head = HEAD.exec(line);
    if (!head) continue;
    const [text, receivedMs = '', deviceId = '', topic = '', ts = '', nonce = '""', digest = ''] = head;
    yield {
      receivedMs: Number(receivedMs),
      deviceId,
      topic: topic as JournalEntry['topic'],
      ts: Number(ts),
      nonce: JSON.parse(nonce) as string,
      digest,
      dataText: line.slice(text.length, -1),
    };
  }
}
