/** Publishes many commands over one partner link and waits for each confirm. */
import { connectPartner, publishFrame, type VhostTestLink } from './links.ts';
import type { Key, Organization } from './world.ts';

type PublishFrame = ReturnType<typeof publishFrame>;

/** Publishes these frames in one batch, with new sequence numbers, and waits until all are recorded. */
export async function publishAll(key: Key, frames: readonly PublishFrame[]): Promise<VhostTestLink> {
  const partner = await connectPartner(key);
  const numbered = frames.map((frame, index) => ({ ...frame, seq: index + 1 }));
  partner.send(...numbered);
  for (const { seq } of numbered) {
    await partner.next((frame) => frame.kind === 'stored' && frame.seqs.includes(seq));
  }
  return partner;
}

/** A valid setpoint that begins in the future: recorded, and PENDING until then. */
export function futureSetpoint(
  organization: Organization,
  key: Key,
  siteId: string,
  targetValueKw: number,
  options: { correlationId?: string; messageId?: string } = {},
): PublishFrame {
  const payload = {
    type: 'POWER',
    targetValueKw,
    direction: 'IMPORT',
    includeConsumption: true,
    priority: 'NORMAL',
    validFrom: new Date(Date.now() + 24 * 3_600_000).toISOString(),
  };
  return publishFrame(organization, key, siteId, 'site-setpoint', payload, options);
}
