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
