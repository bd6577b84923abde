/** One device's session as the engine keeps it. */
import type { DeviceLinkDown, DeviceLinkUp } from '../../protocol/link/device.ts';
import { LULL_MS } from '../../protocol/link/live.ts';
import type { Held } from '../held.ts';
import type { Link } from '../link.ts';
import type { EndReason } from '../reasons.ts';
import type { Origin } from './origins.ts';

export type PublishFrame = Extract<DeviceLinkUp, { kind: 'publish' }>;

/** A publish that waits for the site's word. */
interface Waiting {
  frame: PublishFrame;
  settle: (outcome: 'stored' | 'refused') => void;
}

/** One device's session: its link, and what waits for the site's word. */
export interface Session {
  deviceId: string;
  link: Link<DeviceLinkUp, DeviceLinkDown>;
  waiting: Map<number, Waiting>;
  /** Publishes over the device's rate. Its client is read no further while they wait. */
  held: Held<PublishFrame>;
  /** Nothing has come from the client for so long that the site was told. */
  quiet: boolean;
  /** When it last published, or its site was last told that it does not. */
  spokeMs: number;
  /** How often it tried topics that are not its own: so many are told of. */
  strayed: number;
  origin: Origin;
  /** What went wrong, when the client did not just leave. */
  end?: { why: string; reason: EndReason };
}

/** So many of a session are told of. */
const MAX_STRAYED = 10;
const MAX_TOPIC_CHARS = 256;

/** Tells its site that the client publishes nothing [C-8.2]. */
export function noteLull(session: Session, now: number): void {
  if (now - session.spokeMs < LULL_MS || session.link.version < 4) return;
  session.spokeMs = now;
  session.link.send({ kind: 'lull' });
}

/** Its site keeps it for whoever looks why the device is not heard [C-3.8]. */
export function noteStrayed(session: Session, topic: string, act: 'publish' | 'subscribe'): void {
  session.strayed += 1;
  if (session.link.version < 3 || session.strayed > MAX_STRAYED) return;
  session.link.send({ kind: 'strayed', topic: topic.slice(0, MAX_TOPIC_CHARS), act });
}
