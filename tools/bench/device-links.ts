/** Links of devices to the edge without a bridge, for exact batch sizes: exactly so many frames per message. */
import { type Link, startPulse } from '../../bridge/link.ts';
import { dial, type LinkCredential } from '../../bridge/link-dial.ts';
import { type DeviceLinkDown, type DeviceLinkUp, deviceLinkDown } from '../../protocol/link/device.ts';
import type { SeededPlant } from '../seed.ts';
import type { BenchStack } from './bench-stack.ts';

export { startPulse };
export type DeviceLink = Link<DeviceLinkUp, DeviceLinkDown>;

export interface LinkSender {
  link: DeviceLink;
  device: SeededPlant['gateway'];
  payloads: string[];
}

/** Unanswered batches at a time: enough to keep the links busy, and so few that no answer comes near its timeout. */
const OPEN_BATCHES = 4;

export function credentialOf(username: string, password: string): LinkCredential {
  return { username, password, address: '127.0.0.1', fingerprint: '' };
}

export async function dialDevice(
  stack: BenchStack,
  device: SeededPlant['gateway'],
  boot: string,
): Promise<DeviceLink> {
  const dialed = await dial<DeviceLinkUp, DeviceLinkDown>(
    { url: stack.edge.url, secret: stack.bridgeSecret, bridge: 'bench-link', boot },
    'mqtt',
    credentialOf(device.id, device.token),
    deviceLinkDown,
  );
  if (dialed.outcome !== 'accepted') throw new Error(`the link was not accepted: ${JSON.stringify(dialed)}`);
  return dialed.link;
}

/** Sends a batch for each batch that is stored, from one link after the other. Returns the seconds it took. */
export function pour(senders: readonly LinkSender[], total: number, batch: number): Promise<number> {
  return new Promise((resolve, reject) => {
    let turn = 0;
    let stored = 0;
    const startedAt = performance.now();
    const sendBatch = () => {
      const sender = senders[turn++ % senders.length] as LinkSender;
      const payloads = sender.payloads.splice(0, batch);
      if (payloads.length === 0) return;
      for (const payload of payloads) {
        const seq = sender.link.nextSeq();
        sender.link.send({ kind: 'publish', seq, topic: 'telemetry', payload }, seq);
      }
      sender.link.flush();
    };
    for (const { link } of senders) {
      link.attach({
        frames: (frames) => {
          for (const frame of frames) {
            if (frame.kind === 'refused') reject(new Error(`refused: ${frame.reason}`));
            if (frame.kind === 'wait') reject(new Error('a device exceeds its rate limit'));
            if (frame.kind !== 'stored') continue;
            stored += frame.seqs.length;
            sendBatch();
          }
          if (stored === total) resolve((performance.now() - startedAt) / 1_000);
        },
        closed: (code, reason) => reject(new Error(`the link closed: ${code} ${reason}`)),
      });
    }
    for (let open = 0; open < OPEN_BATCHES; open++) sendBatch();
  });
}
