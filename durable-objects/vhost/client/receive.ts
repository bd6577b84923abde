/**
 * One batch of a client's frames (rule 3): publishes are judged, what is decided here is written in one turn and
 * answered at once, and publishes for Sites go to their lanes, which answer them.
 */
import type { PublishFrame, VhostLinkDown, VhostLinkUp } from '../../../protocol/link/vhost.ts';
import { authorizePublish } from '../../../protocol/publish-right.ts';
import type { CommandFamily } from '../../../protocol/routing-keys.ts';
import type { KeyRecord } from '../key/key.ts';
import type { VhostParts } from '../parts.ts';
import { readEnvelope } from '../publish/publish.ts';
import type { PublishRate } from '../publish/publish-rate.ts';
import type { Publish } from '../publish/publisher.ts';
import { applyFrame, applyMemoryFrame, deadLetter, isMemoryFrame, refusedFrame } from './frames.ts';
import { openConnection } from './opening.ts';

/** What of a batch is decided here, in its order: a frame, a connection's begin, or a publish for the dead-letter queue. */
type Write =
  | { frame: Exclude<VhostLinkUp, PublishFrame | { kind: 'open' }> }
  | { opened: string }
  | { malformed: PublishFrame; reason: string };

/** False when a frame could not be handled: nothing of the batch stands. */
export function receiveFrames(
  vhost: VhostParts,
  connectionId: string,
  key: KeyRecord,
  frames: readonly VhostLinkUp[],
  now: number,
): boolean {
  // 1. judge the publishes; nothing is written yet
  const { names, scopes } = vhost.key;
  const answers: VhostLinkDown[] = [];
  const publishes: Publish[] = [];
  const writes: Write[] = [];
  const waiting: number[] = [];
  for (const frame of frames) {
    if (frame.kind === 'open') {
      writes.push({ opened: frame.vhost });
      continue;
    }
    if (frame.kind !== 'publish') {
      writes.push({ frame });
      continue;
    }
    const allowed = authorizePublish(names, scopes, frame.exchange, frame.routingKey);
    const pace = allowed.ok ? paceOf(vhost, connectionId, frame.seq, allowed.value, now) : 'taken';
    if (pace === 'full') return false;
    if (pace === 'waits') {
      waiting.push(frame.seq);
      continue;
    }
    const envelope = allowed.ok ? readEnvelope(frame) : undefined;
    if (!allowed.ok) {
      vhost.rate.drop(connectionId, frame.seq);
      answers.push(refusedFrame(frame.seq, allowed.refusal));
    } else if (envelope?.ok) publishes.push({ frame, family: allowed.value, envelope: envelope.value });
    else writes.push({ malformed: frame, reason: envelope?.refusal ?? '' });
  }

  // 2. write once, where anything is to be written; acknowledgements and credit wait for a turn to ride in
  if (!write(vhost, connectionId, writes, answers)) return false;

  // 3. answer, deliver, and hand on
  if (waiting.length > 0) answers.push(vhost.rate.wait(waiting, vhost.publishesPerSecond));
  vhost.outflow.send(new Map([[connectionId, answers]]));
  for (const publish of publishes) vhost.publisher.publish(connectionId, key, publish, now);
  if (publishes.length > 0 || answers.some(hasGot)) vhost.noteUse();
  return true;
}

function hasGot(answer: VhostLinkDown): boolean {
  return answer.kind === 'got' && answer.delivery !== null;
}

/** [C-6.5] Emergencies wait for nothing; a bridge of before cannot be told to wait. */
function paceOf(
  vhost: VhostParts,
  connectionId: string,
  seq: number,
  family: CommandFamily,
  now: number,
): ReturnType<PublishRate['take']> {
  if (family === 'emergency' || vhost.sockets.linkOf(connectionId) < 2) return 'taken';
  return vhost.rate.take(connectionId, seq, vhost.publishesPerSecond, now);
}

/** One step of one turn: a batch stands or falls as a whole, and one that fell is not answered. */
function write(
  vhost: VhostParts,
  connectionId: string,
  writes: readonly Write[],
  answers: VhostLinkDown[],
): boolean {
  const { broker, sockets } = vhost;
  const client = { connectionId, names: vhost.key.names, broker, connections: sockets };
  const inMemory = writes.flatMap((one) => ('frame' in one && isMemoryFrame(one.frame) ? [one.frame] : []));
  if (inMemory.length === writes.length) {
    for (const frame of inMemory) applyMemoryFrame(client, frame);
    return true;
  }
  return vhost.turns.run((turn) => {
    // What others acknowledged lately stands, whatever becomes of this batch.
    broker.queues.save(turn);
    return turn.step(() => {
      vhost.undoBroker(turn);
      for (const one of writes) {
        if ('opened' in one) openConnection(turn, vhost, connectionId, one.opened);
        else if ('frame' in one) answers.push(...applyFrame(turn, client, one.frame));
        else answers.push(deadLetter(turn, client, one.malformed, one.reason));
      }
      broker.queues.save(turn);
    });
  });
}
