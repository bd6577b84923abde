/** A device's link between the bridge and a test's edge, with everything that the bridge receives on it. */
import type { Answered, Link } from '../../bridge/link.ts';
import { type DialResult, dial } from '../../bridge/link-dial.ts';
import { type DeviceLinkDown, type DeviceLinkUp, deviceLinkDown } from '../../protocol/link/device.ts';
import { type VhostLinkDown, type VhostLinkUp, vhostLinkDown } from '../../protocol/link/vhost.ts';
import type { DeviceEdgeLink, TestEdge, VhostEdgeLink } from './bridge-edge.ts';
import { Signal } from './bridge-signal.ts';

export const DEVICE_ID = '6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a11';
export const CREDENTIAL = { username: DEVICE_ID, password: 'token', address: '192.0.2.7', fingerprint: '' };

export type DeviceDialResult = DialResult<DeviceLinkUp, DeviceLinkDown>;

export function dialDevice(
  url: string,
  edge: TestEdge['forBridge'],
  answered?: Answered,
): Promise<DeviceDialResult> {
  return dial<DeviceLinkUp, DeviceLinkDown>({ ...edge, url }, 'mqtt', CREDENTIAL, deviceLinkDown, answered);
}

/** The owner of a link: keeps the frames and the end that the link reports. */
export class LinkOwner {
  readonly frames: DeviceLinkDown[] = [];
  closedWith: { code: number; reason: string } | undefined;
  closedTimes = 0;
  readonly #signal = new Signal();

  attachTo(link: Link<DeviceLinkUp, DeviceLinkDown>): void {
    link.attach({
      frames: (frames) => {
        this.frames.push(...frames);
        this.#signal.changed();
      },
      closed: (code, reason) => {
        this.closedWith = { code, reason };
        this.closedTimes += 1;
        this.#signal.changed();
      },
    });
  }

  untilFrames(count: number): Promise<DeviceLinkDown[]> {
    return this.#signal.until(() => (this.frames.length >= count ? this.frames : undefined));
  }

  untilClosed(): Promise<{ code: number; reason: string }> {
    return this.#signal.until(() => this.closedWith);
  }
}

/** Both ends of a link, and its owner. */
export interface OpenLink {
  link: Link<DeviceLinkUp, DeviceLinkDown>;
  object: DeviceEdgeLink;
  owner: LinkOwner;
  /** Sends a frame that expects an answer. Returns its sequence. */
  publish(payload?: string): number;
  /** How long the first publish of each answer took. */
  answeredSeconds: number[];
}

/** The sequence of each publish in each message; 0 for other frames. */
export function seqsOf(batches: DeviceLinkUp[][]): number[][] {
  return batches.map((batch) => batch.map((one) => (one.kind === 'publish' ? one.seq : 0)));
}

/** Both ends of a partner's link, which needs no owner. */
export interface OpenPartnerLink {
  link: Link<VhostLinkUp, VhostLinkDown>;
  object: VhostEdgeLink;
  /** Sends a frame that expects an answer. Returns its sequence. */
  publish(): number;
}

/** The sequence of each publish in each message of a partner's link. */
export function partnerSeqsOf(batches: VhostLinkUp[][]): number[][] {
  return batches.map((batch) => batch.map((one) => (one.kind === 'publish' ? one.seq : 0)));
}

export async function openPartnerLink(edge: TestEdge): Promise<OpenPartnerLink> {
  const { url, forBridge } = edge;
  const [dialed, object] = await Promise.all([
    dial<VhostLinkUp, VhostLinkDown>({ ...forBridge, url }, 'amqp', CREDENTIAL, vhostLinkDown),
    edge.vhostLink(),
  ]);
  if (dialed.outcome !== 'accepted') throw new Error(`not accepted: ${dialed.outcome}`);
  const { link } = dialed;
  const content = { exchange: 'vcp', routingKey: 'acme.command.mode', properties: '', body: 'x' } as const;
  const publish = () => {
    const seq = link.nextSeq();
    link.send({ kind: 'publish', seq, ...content, encoding: 'utf8' }, seq);
    return seq;
  };
  return { link, object, publish };
}

export async function openLink(edge: TestEdge): Promise<OpenLink> {
  const answeredSeconds: number[] = [];
  const [dialed, object] = await Promise.all([
    dialDevice(edge.url, edge.forBridge, (seconds) => void answeredSeconds.push(seconds)),
    edge.deviceLink(),
  ]);
  if (dialed.outcome !== 'accepted') throw new Error(`not accepted: ${dialed.outcome}`);
  const { link } = dialed;
  const owner = new LinkOwner();
  owner.attachTo(link);
  const publish = (payload = 'x') => {
    const seq = link.nextSeq();
    link.send({ kind: 'publish', seq, topic: 'telemetry', payload }, seq);
    return seq;
  };
  return { link, object, owner, publish, answeredSeconds };
}
