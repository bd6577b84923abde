/**
 * A journal entry: one received message, stored as one line of a block. The line holds both data and nonce.
 */
import { signableJson } from '../../../protocol/compact-json.ts';
import type { DevicePublishTopic } from '../../../protocol/topics.ts';
import type { SignalOrigin } from './snapshot.ts';

export interface JournalEntry {
  receivedMs: number;
  deviceId: string;
  topic: Exclude<DevicePublishTopic, 'ack'>;
  ts: number;
  nonce: string;
  /** The first 16 hex characters of the signature; distinguishes a resend from a replay. */
  digest: string;
  /**
   * The meaning of bare signal names when the message was received: `*` if the device served the site, then
   * the external id of its linked sub-device. Absent in status entries.
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

/** The part of a journal line before its data; the nonce is a JSON string and may contain escapes. */
const HEAD = /^\[(\d+),"([^"]*)","([a-z]+)",(-?\d+),("(?:[^"\\]|\\.)*"),"([0-9a-f]*)",(?:"([^"]*)",)?/;

/** Yields the entries of a block, without parsing their data. */
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

/** A telemetry entry with its parsed values. */
export interface StoredReading {
  entry: JournalEntry;
  data: Record<string, number>;
}

/** The readings of a block that were received at or after `sinceMs`. */
export function* readingsOf(block: string, sinceMs: number): Generator<StoredReading> {
  for (const entry of parseEntries(block)) {
    if (entry.topic !== 'telemetry' || entry.receivedMs < sinceMs) continue;
    yield { entry, data: valuesOf(entry) };
  }
}

/** The value of `JournalEntry.as` for an origin. */
export function meaningOf({ servesSite, subDeviceId = '' }: SignalOrigin): string {
  return `${servesSite ? '*' : ''}${subDeviceId}`;
}

export function originOf(deviceId: string, as: string): SignalOrigin {
  const servesSite = as.startsWith('*');
  const subDeviceId = servesSite ? as.slice(1) : as;
  return { deviceId, servesSite, subDeviceId: subDeviceId === '' ? undefined : subDeviceId };
}

/** The values of a telemetry message. `__proto__` is removed, as on receipt: it is never a signal name. */
export function valuesOf({ dataText }: Pick<JournalEntry, 'dataText'>): Record<string, number> {
  const data = JSON.parse(dataText) as Record<string, number>;
  Reflect.deleteProperty(data, '__proto__');
  return data;
}
