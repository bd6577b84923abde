/** The texts that are signed. A signature is HMAC-SHA256 in lower-case hex, computed where the keys are. */
import { compact, signableJson } from './compact-json.ts';
import type { DeviceAckStatus, DeviceReportedStatus } from './enums.ts';

export const SIGNATURE = /^[0-9a-f]{64}$/;

/** What the Vhost's check of a message's signature found [C-7.2]; `not-needed`: commands of its kind need none, so it was not checked. */
export const SIGNATURE_VERDICTS = ['valid', 'not-needed', 'missing', 'mismatch'] as const;
export type SignatureVerdict = (typeof SIGNATURE_VERDICTS)[number];

/** spec: Device MQTT (TOKEN method). `dataText` is the raw slice of `data` as it was sent. */
export function telemetrySigningString(
  deviceId: string,
  ts: number,
  nonce: string,
  dataText: string,
): string {
  return `${deviceId}|${ts}|${nonce}|${compact(dataText)}`;
}

export function statusSigningString(
  deviceId: string,
  ts: number,
  nonce: string,
  status: DeviceReportedStatus,
): string {
  return `${deviceId}|${ts}|${nonce}|${signableJson({ status })}`;
}

export function commandSigningString(
  deviceId: string,
  cmdId: string,
  ts: number,
  action: string,
  payloadText: string,
): string {
  return `${deviceId}|${cmdId}|${ts}|${action}|${compact(payloadText)}`;
}

export function ackSigningString(
  deviceId: string,
  cmdId: string,
  ts: number,
  status: DeviceAckStatus,
): string {
  return `${deviceId}|${cmdId}|${ts}|${status}`;
}

/** The text that a device signs to request a token [C-3.12]. */
export function renewalSigningString(deviceId: string, ts: number, nonce: string): string {
  return `${deviceId}|${ts}|${nonce}|RENEW`;
}

export interface SignedEnvelopeFields {
  version: string;
  messageId: string;
  correlationId?: string | undefined;
  timestamp: string;
  source: string;
  siteId: string;
}

/**
 * The text that an envelope's `signature` covers [C-7.2]. Undefined if a field contains the separator `|`:
 * such an envelope cannot be signed. `payloadText` is the raw slice of `payload` as it was sent.
 */
export function envelopeSigningString(
  envelope: SignedEnvelopeFields,
  routingKey: string,
  payloadText: string,
): string | undefined {
  const fields = [
    envelope.version,
    envelope.messageId,
    envelope.correlationId ?? '',
    envelope.timestamp,
    envelope.source,
    envelope.siteId,
    routingKey,
  ];
  if (fields.some((field) => field.includes('|'))) return undefined;
  return `${fields.join('|')}|${compact(payloadText)}`;
}
