/**
 * What the baseline checks before it stores anything: the same schemas and the same signatures as the product, without
 * its plan, schedules and verdicts.
 */
import { randomUUID } from 'node:crypto';
import { hmacHex, verifyHmac } from '../../../durable-objects/secrets/hmac.ts';
import { assetTypeOf } from '../../../protocol/asset.ts';
import { type DeviceCommandItem, parsePublish } from '../../../protocol/command.ts';
import { signableJson } from '../../../protocol/compact-json.ts';
import { commandMessage, type DeviceMessage, parseDeviceMessage } from '../../../protocol/device-message.ts';
import { type Envelope, parseEnvelope, SOURCE, VCP_VERSION } from '../../../protocol/envelope.ts';
import type { Acknowledgement } from '../../../protocol/event.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { ok, type Result, refuse } from '../../../protocol/result.ts';
import { commandFamily, type EventKind, eventRoutingKey } from '../../../protocol/routing-keys.ts';
import { commandSigningString, envelopeSigningString } from '../../../protocol/signing.ts';
import type { DevicePublishTopic } from '../../../protocol/topics.ts';

/** An API key: its slug starts its routing keys, and its signing key signs in both directions. */
export interface PartnerKey {
  slug: string;
  signingKey: string;
}

export interface Device {
  id: string;
  hmacSecret: string;
}

export interface Plant {
  id: string;
  gateway: Device;
  maxChargeKw: number | null;
  /** Asset type by external id. */
  subDevices: ReadonlyMap<string, string>;
}

/** A publish that is well formed and signed. `items`: undefined if the payload is invalid. */
export interface Publish {
  envelope: Envelope;
  items: readonly DeviceCommandItem[];
  faults: readonly string[];
}

/** Parses a publish and verifies its signature. A refused publish is dead-lettered. */
export function checkPublish(key: PartnerKey, routingKey: string, body: string): Result<Publish, string> {
  const family = commandFamily(key.slug, routingKey);
  if (!family.ok || family.value !== 'device') return refuse(`unknown routing key ${routingKey}`);
  const parsed = parseEnvelope(body);
  if (!parsed.ok) return parsed;
  const envelope = parsed.value;
  const signed = { ...envelope, messageId: envelope.messageIdText };
  const text = envelopeSigningString(signed, routingKey, envelope.payloadText);
  const isSigned = text !== undefined && verifyHmac(key.signingKey, text, envelope.signature ?? '');
  if (!isSigned) return refuse('the signature does not match');
  const command = parsePublish(family.value, routingKey, envelope.payloadText);
  if (!command.ok) return ok({ envelope, items: [], faults: command.refusal });
  const items = command.value.commandType === 'DEVICE_COMMAND' ? command.value.payload.commands : [];
  return ok({ envelope, items, faults: [] });
}

/** The acknowledgement of a publish: accepted if each of its items is possible at the plant. */
export function judge({ items, faults }: Publish, plant: Plant | undefined): Acknowledgement {
  const about = { commandType: 'DEVICE_COMMAND' } as const;
  const rejected = (rejectionCode: 'INVALID_PAYLOAD' | 'INVALID_COMMAND', message: string) =>
    ({ ...about, status: 'REJECTED', rejectionCode, message }) as const;
  if (!plant) return rejected('INVALID_COMMAND', 'unknown site');
  if (faults.length > 0) return rejected('INVALID_PAYLOAD', faults.join('; '));
  const failure = items.map((item) => faultOf(item, plant)).find((fault) => fault !== undefined);
  if (failure) return rejected('INVALID_COMMAND', failure);
  const results = items.map(({ deviceId, command }, index) => ({
    ...{ index, deviceId, command },
    status: 'ACCEPTED' as const,
  }));
  return { ...about, status: 'ACCEPTED', results };
}

function faultOf({ deviceId, assetType, command, params }: DeviceCommandItem, plant: Plant) {
  const known = plant.subDevices.get(deviceId);
  if (!known) return `${deviceId} is not in the site's topology`;
  if (known !== assetType || assetTypeOf(command) !== known) return `${command} is not for a ${known}`;
  const powerKw = params?.powerKw ?? 0;
  return plant.maxChargeKw !== null && powerKw > plant.maxChargeKw ? `${powerKw} kW is too much` : undefined;
}

/** The signed MQTT message of a command to the gateway of its plant. */
export function signedCommand(
  { id, hmacSecret }: Device,
  cmdId: string,
  items: readonly DeviceCommandItem[],
  now: number,
): string {
  const action = items[0]?.command ?? '';
  const targets = items.map(({ deviceId, assetType, params }) => ({
    ...{ deviceId, assetType },
    params: { ...params, respectLimits: params?.respectLimits ?? true },
  }));
  const payloadText = signableJson({ targets, validUntil: null });
  const sig = hmacHex(hmacSecret, commandSigningString(id, cmdId, now, action, payloadText));
  return commandMessage({ cmdId, ts: now, action, payloadText, sig });
}

/** Parses a device's message, and verifies its signature and that it is of this time. */
export function checkDeviceMessage(
  { id, hmacSecret }: Device,
  topic: DevicePublishTopic,
  text: string,
  now: number,
): Result<DeviceMessage, string> {
  const parsed = parseDeviceMessage(id, topic, text);
  if (!parsed.ok) return parsed;
  const { signingString, sig, ts } = parsed.value;
  if (Math.abs(now - ts) > LIMIT.timestampToleranceMs) return refuse('the timestamp is too old or too new');
  return verifyHmac(hmacSecret, signingString, sig) ? parsed : refuse('the signature does not match');
}

export interface EventText {
  messageId: string;
  routingKey: string;
  body: string;
}

/** A signed event, as a partner receives it. */
export function signedEvent(
  { slug, signingKey }: PartnerKey,
  kind: EventKind,
  about: { siteId: string; correlationId?: string | undefined },
  payload: object,
  now: number,
): EventText {
  const routingKey = eventRoutingKey(slug, kind);
  const { siteId, correlationId } = about;
  const messageId = randomUUID();
  const envelope = {
    ...{ version: VCP_VERSION, messageId },
    ...(correlationId === undefined ? {} : { correlationId }),
    ...{ timestamp: new Date(now).toISOString(), source: SOURCE, siteId },
  };
  const payloadText = signableJson(payload);
  const text = envelopeSigningString(envelope, routingKey, payloadText);
  const signature = text === undefined ? '' : `,"signature":"${hmacHex(signingKey, text)}"`;
  const body = `${JSON.stringify(envelope).slice(0, -1)},"payload":${payloadText}${signature}}`;
  return { messageId, routingKey, body };
}
