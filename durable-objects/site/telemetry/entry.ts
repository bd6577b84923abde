/** A journal entry: one message as it came, as a line of its block. A line carries data and nonce in one. */
import { signableJson } from '../../../protocol/compact-json.ts';
import type { DevicePublishTopic } from '../../../protocol/topics.ts';
import type { SignalOrigin } from './snapshot.ts';

export interface JournalEntry {
  receivedMs: number;
  deviceId: string;
  topic: Exclude<DevicePublishTopic, 'ack'>;
  ts: number;
  nonce: string;
  /** The first 16 hex characters of the signature: tells a re-send from a replay. */
  digest: string;
  /**
   * What its bare signal names meant when it came: `*` of what serves the site, then the sub-device that is linked to it.
   * Absent from messages of before, and from a status.
   */
  as?: string | undefined;
  /** Raw JSON: `data` of a telemetry message, the status of a status message. */
  dataText: string;
}

export function formatEntry(entry: JournalEntry): string {
  const { receivedMs, deviceId, topic, ts, nonce, digest, as, dataText } = entry;
  const meaning = as === undefined ? '' : `"${as}",`;
  return `[${receivedMs},"${deviceId}","${topic}",${ts},${signableJson(nonce)},"${digest}",${meaning}${dataText}]\n`;
}

/** What stands before the data of a line; the nonce may hold whatever JSON escapes. */
const HEAD = /^\[(\d+),"([^"]*)","([a-z]+)",(-?\d+),("(?:[^"\\]|\\.)*"),"([0-9a-f]*)",(?:"([^"]*)",)?/;

/** The entries of a block, one at a time; their data is not parsed. */
export function* parseEntries(block: string): Generator<JournalEntry> {
  for (let start = 0; start < block.length; ) {
    const end = block.indexOf('\n', start);
    const line = block.slice(start, end < 0 ? block.length : end);
    start = end < 0 ? block.length : end + 1;
    const head = HEAD.exec(line);
    if (!head) continue;
    const [text, receivedMs = '', deviceId = '', topic = '', ts = '', nonce = '""', digest = '', as] = head;
    yield {
      receivedMs: Number(receivedMs),
      deviceId,
      topic: topic as JournalEntry['topic'],
      ts: Number(ts),
      nonce: JSON.parse(nonce) as string,
      digest,
      as,
      dataText: line.slice(text.length, -1),
    };
  }
}

/** A reading as it is read back. */
export interface StoredReading {
  entry: JournalEntry;
  data: Record<string, number>;
}

/** The readings of a block that were received since then. */
export function* readingsOf(block: string, sinceMs: number): Generator<StoredReading> {
  for (const entry of parseEntries(block)) {
    if (entry.topic !== 'telemetry' || entry.receivedMs < sinceMs) continue;
    yield { entry, data: valuesOf(entry) };
  }
}

/** What bare signal names mean, as it stands in an entry. */
export function meaningOf({ servesSite, subDeviceId = '' }: SignalOrigin): string {
  return `${servesSite ? '*' : ''}${subDeviceId}`;
}

export function originOf(deviceId: string, as: string): SignalOrigin {
  const servesSite = as.startsWith('*');
  const subDeviceId = servesSite ? as.slice(1) : as;
  return { deviceId, servesSite, subDeviceId: subDeviceId === '' ? undefined : subDeviceId };
}

/** The values of a telemetry message as they counted when it came: `__proto__` is the name of no signal, whatever it holds. */
export function valuesOf({ dataText }: Pick<JournalEntry, 'dataText'>): Record<string, number> {
  const data = JSON.parse(dataText) as Record<string, number>;
  Reflect.deleteProperty(data, '__proto__');
  return data;
}
