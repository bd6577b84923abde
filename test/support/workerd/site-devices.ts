/** The actions of devices on their links, one function each. */
import { runInDurableObject } from 'cloudflare:test';
import { vi } from 'vitest';
import { hmacHex } from '../../../durable-objects/secrets/hmac.ts';
import type { DeviceAckStatus, DeviceReportedStatus } from '../../../protocol/enums.ts';
import { statusSigningString, telemetrySigningString } from '../../../protocol/signing.ts';
import type { DevicePublishTopic } from '../../../protocol/topics.ts';
import { ackMessage, type DeviceTestLink, dialSite, openLink, telemetryMessage } from './links.ts';
import { passTime, SECOND } from './site-clock.ts';
import { type Plant, siteOf } from './world.ts';

export interface DeviceCredential {
  id: string;
  hmacSecret: string;
}

export interface ReceivedCommand {
  cmdId: string;
  ts: number;
  action: string;
  payload: Record<string, unknown>;
  sig: string;
}

let lastSeq = 0;

/** Sends payloads as one batch and waits for its answer; true for each that was stored. */
export async function publishAll(
  link: DeviceTestLink,
  payloads: readonly string[],
  topic: DevicePublishTopic = 'telemetry',
): Promise<boolean[]> {
  const first = lastSeq + 1;
  lastSeq += payloads.length;
  link.send(
    ...payloads.map((payload, index) => ({ kind: 'publish', seq: first + index, topic, payload }) as const),
  );
  const answers: boolean[] = [];
  for (const index of payloads.keys()) {
    const answer = await link.next(
      (frame) =>
        (frame.kind === 'stored' && frame.seqs.includes(first + index)) ||
        (frame.kind === 'refused' && frame.seq === first + index),
    );
    answers.push(answer.kind === 'stored');
  }
  return answers;
}

/** Sends one payload and waits for its answer; true if it was stored. */
export async function publish(
  link: DeviceTestLink,
  payload: string,
  topic: DevicePublishTopic = 'telemetry',
): Promise<boolean> {
  const [stored] = await publishAll(link, [payload], topic);
  return stored === true;
}

/** Sends signals as signed telemetry; true if it was stored. */
export async function sendTelemetry(link: DeviceTestLink, device: DeviceCredential, data: object) {
  return await publish(link, telemetryMessage(device, JSON.stringify(data)));
}

/** Sends a signed acknowledgement of a command; true if it was stored. */
export async function sendAck(
  link: DeviceTestLink,
  device: DeviceCredential,
  cmdId: string,
  status: DeviceAckStatus,
) {
  return await publish(link, ackMessage(device, cmdId, status), 'ack');
}

/** Sends a signed status of the device; true if it was stored. */
export async function sendStatus(
  link: DeviceTestLink,
  device: DeviceCredential,
  status: DeviceReportedStatus,
  nonce: string = crypto.randomUUID(),
) {
  const ts = Date.now();
  const sig = hmacHex(device.hmacSecret, statusSigningString(device.id, ts, nonce, status));
  return await publish(link, JSON.stringify({ ts, nonce, status, sig }), 'status');
}

/** A telemetry message whose text and signature are made separately, so that the two can differ. */
export function rawTelemetry(
  device: DeviceCredential,
  fields: { ts?: number; tsText?: string; nonce?: string; signedData?: string; data: string; sig?: string },
  key: string | Uint8Array = device.hmacSecret,
): string {
  const ts = fields.ts ?? Date.now();
  const nonce = fields.nonce ?? crypto.randomUUID();
  const signed = telemetrySigningString(device.id, ts, nonce, fields.signedData ?? fields.data);
  const sig = fields.sig ?? hmacHex(key, signed);
  return `{"ts":${fields.tsText ?? ts},"nonce":${JSON.stringify(nonce)},"data":${fields.data},"sig":"${sig}"}`;
}

/** The data of a message with that many signals. */
export function manySignals(count: number, prefix = 'signal-'): string {
  const names = Array.from({ length: count }, (_none, index) => [`${prefix}${index}`, index]);
  return JSON.stringify(Object.fromEntries(names));
}

/** Opens a link for a device of a site. */
export async function connectTo(
  siteId: string,
  deviceId: string,
  options: Parameters<typeof dialSite>[2] = {},
): Promise<DeviceTestLink> {
  return openLink(await dialSite(siteId, deviceId, options));
}

/** Connects a device, by default the plant's gateway, and subscribes it to its commands. */
export async function connectListening(
  plant: Plant,
  device: DeviceCredential = plant.gateway,
  options: Parameters<typeof dialSite>[2] = {},
): Promise<DeviceTestLink> {
  const link = await connectTo(plant.id, device.id, options);
  await subscribe(link, device);
  return link;
}

/** Lets time pass while the gateway sends a signal of an unknown sub-device every half minute, to stay connected. */
export async function stayConnected(plant: Plant, link: DeviceTestLink, durationMs: number): Promise<void> {
  for (let passedMs = 0; passedMs < durationMs; passedMs += 30 * SECOND) {
    await passTime(plant.id, Math.min(30 * SECOND, durationMs - passedMs));
    await sendTelemetry(link, plant.gateway, { 'unknown/powerKw': 1 });
  }
}

/** Subscribes a device and waits until the site has stored an ack after it, and so has handled the subscription. */
export async function subscribe(link: DeviceTestLink, device: DeviceCredential): Promise<void> {
  link.send({ kind: 'subscribed', commands: true });
  await sendAck(link, device, 'none', 'RECEIVED');
}

/** The commands that a link got so far, in order. */
export function commandsOf(link: DeviceTestLink): ReceivedCommand[] {
  return link.received.flatMap((frame) =>
    frame.kind === 'command' ? [JSON.parse(frame.payload) as ReceivedCommand] : [],
  );
}

/** The n-th command that the link got, now or when it comes. */
export async function nthCommand(link: DeviceTestLink, n: number): Promise<ReceivedCommand> {
  const frame = await link.next(
    (one) => one.kind === 'command' && link.received.filter(isCommand).indexOf(one) === n - 1,
  );
  return JSON.parse(frame.kind === 'command' ? frame.payload : '') as ReceivedCommand;
}

function isCommand(frame: { kind: string }): boolean {
  return frame.kind === 'command';
}

/** How many of a device's messages were dropped, by reason. */
export async function droppedOf(siteId: string, deviceId: string): Promise<Record<string, number>> {
  return (await siteOf(siteId).diagnostics(deviceId)).drops;
}

/**
 * Simulates the pings of all bridges until `vi.restoreAllMocks()`. The runtime answers real pings itself, and records
 * them with the real time, which is years before the time of the test.
 */
export async function answerPings(siteId: string): Promise<void> {
  await runInDurableObject(siteOf(siteId), (_site, state) => {
    const prototype = Object.getPrototypeOf(state) as DurableObjectState;
    vi.spyOn(prototype, 'getWebSocketAutoResponseTimestamp').mockImplementation(() => new Date());
  });
}
