/** The bridge's side of a link, inside workerd: dials an object as the Worker does, and speaks its frames. */

import { type ClientDial, type DeviceDial, DIAL_HEADER } from '../../../durable-objects/dial.ts';
import { hmacHex } from '../../../durable-objects/secrets/hmac.ts';
import { compact } from '../../../protocol/compact-json.ts';
import type { DeviceLinkDown, DeviceLinkUp } from '../../../protocol/link/device.ts';
import { VHOST_HEADER } from '../../../protocol/link/proof.ts';
import type { VhostLinkDown, VhostLinkUp } from '../../../protocol/link/vhost.ts';
import { type CommandFamily, commandRoutingKey } from '../../../protocol/routing-keys.ts';
import {
  ackSigningString,
  envelopeSigningString,
  telemetrySigningString,
} from '../../../protocol/signing.ts';
import { checkCommand, checkEvent } from './schema-check.ts';
import { type Key, type Organization, type Plant, siteOf, vhostOf } from './world.ts';

/** One open link. `received` holds every frame so far; `next` waits for the first that fits. */
export class TestLink<Up, Down extends { kind: string }> {
  readonly received: Down[] = [];
  readonly socket: WebSocket;
  closed: { code: number; reason: string } | undefined;
  readonly #listeners = new Set<() => void>();

  constructor(socket: WebSocket) {
    this.socket = socket;
    socket.accept();
    socket.addEventListener('message', (event) => {
      if (typeof event.data !== 'string' || event.data === 'pong') return;
      const frames = JSON.parse(event.data) as Down[];
      for (const frame of frames) checkFrame(frame as unknown as DeviceLinkDown | VhostLinkDown);
      this.received.push(...frames);
      for (const listener of this.#listeners) listener();
    });
    socket.addEventListener('close', (event) => {
      this.closed = { code: event.code, reason: event.reason };
      for (const listener of this.#listeners) listener();
    });
  }

  /** One message with these frames. */
  send(...frames: Up[]): void {
    this.socket.send(JSON.stringify(frames));
  }

  async next(fits: (frame: Down) => boolean): Promise<Down> {
    return await this.#until(() => this.received.find(fits));
  }

  async untilClosed(): Promise<{ code: number; reason: string }> {
    return await this.#until(() => this.closed);
  }

  #until<Value>(look: () => Value | undefined): Promise<Value> {
    const found = look();
    if (found !== undefined) return Promise.resolve(found);
    return new Promise((resolve) => {
      const listener = () => {
        const value = look();
        if (value === undefined) return;
        this.#listeners.delete(listener);
        resolve(value);
      };
      this.#listeners.add(listener);
    });
  }
}

function checkFrame(frame: DeviceLinkDown | VhostLinkDown): void {
  if (frame.kind === 'command') checkCommand(frame.payload);
  else if ((frame.kind === 'deliver' || frame.kind === 'got') && frame.delivery) checkEvent(frame.delivery);
}

export type DeviceTestLink = TestLink<DeviceLinkUp, DeviceLinkDown>;
export type VhostTestLink = TestLink<VhostLinkUp, VhostLinkDown>;

interface DialOptions {
  bridge?: string;
  boot?: string;
  connection?: string;
  expiresAtMs?: number | null;
  /** Of a device's token. */
  issuedAtMs?: number | null;
  /** Of a device: where it comes from. */
  address?: string;
}

/** Dials a site for a device as the Worker does, and returns the site's answer. */
export async function dialSite(
  siteId: string,
  deviceId: string,
  options: DialOptions = {},
): Promise<Response> {
  const dial: DeviceDial = {
    siteId,
    plantId: siteId,
    deviceId,
    connection: options.connection ?? crypto.randomUUID(),
    bridge: options.bridge ?? 'bridge-1',
    boot: options.boot ?? 'boot-1',
    expiresAtMs: options.expiresAtMs ?? null,
    issuedAtMs: options.issuedAtMs ?? null,
    address: options.address ?? '203.0.113.1',
  };
  const headers = { upgrade: 'websocket', [DIAL_HEADER]: JSON.stringify(dial) };
  return await siteOf(siteId).fetch('https://site/link', { headers });
}

/** Opens a link for a plant's gateway. */
export async function connectDevice(plant: Plant, options: DialOptions = {}): Promise<DeviceTestLink> {
  return openLink(await dialSite(plant.id, plant.gateway.id, options));
}

/** The same with a subscription to commands. */
export async function connectListener(plant: Plant): Promise<DeviceTestLink> {
  const device = await connectDevice(plant);
  device.send({ kind: 'subscribed', commands: true });
  return device;
}

/** Dials a key's Vhost as the Worker does, and returns its answer. */
export async function dialVhost(keyId: string, options: DialOptions = {}): Promise<Response> {
  const dial: ClientDial = {
    keyId,
    connection: options.connection ?? crypto.randomUUID(),
    bridge: options.bridge ?? 'bridge-1',
    boot: options.boot ?? 'boot-1',
    address: '192.0.2.7',
    isProbe: false,
  };
  const headers = { upgrade: 'websocket', [DIAL_HEADER]: JSON.stringify(dial) };
  return await vhostOf(keyId).fetch('https://vhost/link', { headers });
}

/** Opens a link for a client of a key, and the key's vhost on it. */
export async function connectPartner(key: Key, options: DialOptions = {}): Promise<VhostTestLink> {
  const response = await dialVhost(key.id, options);
  const link: VhostTestLink = openLink(response);
  await openVhost(link, response.headers.get(VHOST_HEADER) ?? '');
  return link;
}

/** Sends connection.open, and waits until the object has handled it. */
export async function openVhost(link: VhostTestLink, vhost: string): Promise<void> {
  // Only the frame after it is answered.
  link.send({ kind: 'open', vhost }, { kind: 'cancel', seq: 0, channel: 1, tag: 'none' });
  await link.next((frame) => frame.kind === 'ok' && frame.seq === 0);
  link.received.length = 0;
}

/** The link of an accepted upgrade; throws where it was refused. */
export function openLink<Up, Down extends { kind: string }>(response: Response): TestLink<Up, Down> {
  if (!response.webSocket) throw new Error(`no socket: ${response.status}`);
  return new TestLink<Up, Down>(response.webSocket);
}

/** A signed telemetry message, as a device sends it. */
export function telemetryMessage(
  device: { id: string; hmacSecret: string },
  dataText: string,
  options: { ts?: number; nonce?: string } = {},
): string {
  const ts = options.ts ?? Date.now();
  const nonce = options.nonce ?? crypto.randomUUID();
  const sig = hmacHex(device.hmacSecret, telemetrySigningString(device.id, ts, nonce, dataText));
  return `{"ts":${ts},"nonce":${JSON.stringify(nonce)},"data":${dataText},"sig":"${sig}"}`;
}

/** A signed acknowledgement of a command. */
export function ackMessage(
  device: { id: string; hmacSecret: string },
  cmdId: string,
  status: 'RECEIVED' | 'IN_PROGRESS' | 'COMPLETED' | 'FAILED',
): string {
  const ts = Date.now();
  const sig = hmacHex(device.hmacSecret, ackSigningString(device.id, cmdId, ts, status));
  return JSON.stringify({ cmdId, status, ts, sig });
}

/** A publish frame with a whole envelope, signed unless the options say otherwise. */
export function publishFrame(
  organization: Organization,
  key: Key,
  siteId: string,
  family: CommandFamily,
  payload: unknown,
  options: {
    seq?: number;
    messageId?: string;
    correlationId?: string;
    sign?: boolean;
    timestamp?: string;
  } = {},
): Extract<VhostLinkUp, { kind: 'publish' }> {
  const routingKey = commandRoutingKey(organization.slug, family);
  const envelope = {
    version: '1.1',
    messageId: options.messageId ?? crypto.randomUUID(),
    correlationId: options.correlationId ?? crypto.randomUUID(),
    timestamp: options.timestamp ?? new Date().toISOString(),
    source: 'partner',
    siteId,
  };
  const payloadText = JSON.stringify(payload);
  const signature = hmacHex(
    key.signingKey,
    envelopeSigningString(envelope, routingKey, compact(payloadText)) ?? '',
  );
  const body = JSON.stringify({ ...envelope, payload, ...(options.sign === false ? {} : { signature }) });
  return {
    kind: 'publish',
    seq: options.seq ?? 1,
    exchange: 'vcp',
    routingKey,
    properties: '',
    body,
    encoding: 'utf8',
  };
}

/** The body of a request over HTTPS with that message. */
export function messageOf(...args: Parameters<typeof publishFrame>): { routingKey: string; message: string } {
  const { routingKey, body: message } = publishFrame(...args);
  return { routingKey, message };
}
