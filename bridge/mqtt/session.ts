/** The session of one device, and the notifications about it that the bridge sends to the Site. */
import type { Client } from 'aedes';
import type { DeviceLinkDown, DeviceLinkUp } from '../../protocol/link/device.ts';
import { NO_PUBLISH_MS } from '../../protocol/link/live.ts';
import { deviceTopic } from '../../protocol/topics.ts';
import { Held } from '../held.ts';
import type { Link } from '../link.ts';
import type { EndReason } from '../reasons.ts';
import { Intake } from './intake.ts';
import type { Origin } from './origins.ts';

export type PublishFrame = Extract<DeviceLinkUp, { kind: 'publish' | 'not-utf8' }>;

/** A publish that the Site has not answered yet. */
interface Waiting {
  frame: PublishFrame;
  answer: (outcome: 'stored' | 'refused') => void;
}

/** The session of one device: its link and its unanswered publishes. */
export interface Session {
  deviceId: string;
  link: Link<DeviceLinkUp, DeviceLinkDown>;
  waiting: Map<number, Waiting>;
  /** Publishes over the device's rate. The client is not read while any are held. */
  held: Held<PublishFrame>;
  intake: Intake;
  /** True after the Site was notified that the client has sent nothing for `CLIENT_QUIET_MS`. */
  quiet: boolean;
  /** When the client last published, or when the Site was last notified that the client does not publish. */
  spokeMs: number;
  /** How often the client used a topic that is not its own; the first `MAX_FOREIGN_TOPICS` times are reported. */
  foreignTopics: number;
  origin: Origin;
  /** What went wrong, if the client did not simply disconnect. */
  end?: { why: string; reason: EndReason };
}

/** Uses of foreign topics that are reported per session. */
const MAX_FOREIGN_TOPICS = 10;
const MAX_TOPIC_CHARS = 256;

/** A new session. `hold` stops reading from the client, or lets it go on. */
export function beginSession(
  of: Pick<Session, 'deviceId' | 'origin' | 'link'>,
  hold: (isHeld: boolean) => void,
): Session {
  const intake = new Intake(hold);
  const held = new Held<PublishFrame>(
    (frame) => sendPublish(of.link, frame),
    (isHolding) => intake.holdFor('rate', isHolding),
  );
  const fresh = { quiet: false, foreignTopics: 0, spokeMs: Date.now() };
  return { ...of, waiting: new Map(), held, intake, ...fresh };
}

/** Sends a publish: telemetry may wait for the answer to earlier telemetry; acknowledgements and statuses do not. */
export function sendPublish(link: Session['link'], frame: PublishFrame): void {
  link.send(frame, frame.seq, frame.topic !== 'telemetry');
}

/** Sends a command to the client. */
export function sendCommand(client: Client, deviceId: string, payload: string): void {
  const topic = deviceTopic(deviceId, 'commands');
  client.publish(
    { cmd: 'publish', topic, payload: Buffer.from(payload, 'utf8'), qos: 1, retain: false, dup: false },
    () => {},
  );
}

/** Notifies the Site when the client has published nothing for `NO_PUBLISH_MS` [C-8.2]. */
export function noteNoPublish(session: Session, now: number): void {
  if (now - session.spokeMs < NO_PUBLISH_MS) return;
  session.spokeMs = now;
  session.link.send({ kind: 'no-publish' });
}

/** Reports the use of a foreign topic to the Site, for the diagnostics of the device [C-3.8]. */
export function noteForeignTopic(session: Session, topic: string, act: 'publish' | 'subscribe'): void {
  session.foreignTopics += 1;
  if (session.foreignTopics > MAX_FOREIGN_TOPICS) return;
  session.link.send({ kind: 'foreign-topic', topic: topic.slice(0, MAX_TOPIC_CHARS), act });
}
