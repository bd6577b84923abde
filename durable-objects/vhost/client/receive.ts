/**
 * Handles one batch of a client's frames (rule 3). Publishes are authorized; all other frames are applied in
 * one turn and answered at once; valid publishes go to the lanes of their Sites, which answer them later.
 */
import type { PublishFrame, VhostLinkDown, VhostLinkUp } from '../../../protocol/link/vhost.ts';
import { authorizePublish } from '../../../protocol/publish-right.ts';
import type { KeyRecord } from '../key/key.ts';
import type { VhostParts } from '../parts.ts';
import { readEnvelope } from '../publish/publish.ts';
import type { Publish } from '../publish/publisher.ts';
import { applyFrame, applyMemoryFrame, deadLetter, isMemoryFrame, refusedFrame } from './frames.ts';
import { openConnection } from './opening.ts';

/**
 * A change that a batch makes in this object: a frame, connection.open, or a publish for the dead-letter
 * queue. The changes are applied in the order of the batch.
 */
type Write =
  | { frame: Exclude<VhostLinkUp, PublishFrame | { kind: 'open' }> }
  | { opened: string }
  | { malformed: PublishFrame; reason: string };

/**
 * Returns false if a frame could not be handled, or if the bridge sent more publishes over the rate than it may
 * hold: nothing of the batch is stored, and the caller must close the connection.
 */
export function receiveFrames(
  vhost: VhostParts,
  connectionId: string,
  key: KeyRecord,
  frames: readonly VhostLinkUp[],
  now: number,
): boolean {
  // 1. authorize the publishes; nothing is written yet
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
    // Emergencies are never held [C-6.5].
    const isPaced = allowed.ok && allowed.value !== 'emergency';
    const pace = isPaced ? vhost.rate.take(connectionId, frame.seq, vhost.publishesPerSecond, now) : 'taken';
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

  // 2. apply the changes in one turn; a batch of only acknowledgements and credit changes memory and needs none
  if (!write(vhost, connectionId, writes, answers)) return false;

  // 3. send answers and deliveries, and submit the publishes
  if (waiting.length > 0) answers.push(vhost.rate.wait(waiting, vhost.publishesPerSecond));
  vhost.outflow.send(new Map([[connectionId, answers]]));
  for (const publish of publishes) vhost.publisher.publish(connectionId, key, publish, now);
  if (publishes.length > 0 || answers.some(hasGot)) vhost.noteUse();
  return true;
}

function hasGot(answer: VhostLinkDown): boolean {
  return answer.kind === 'got' && answer.delivery !== null;
}

/** Applies all changes in one step: a batch is applied completely or not at all, and a failed batch has no answer. */
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
    // First store the acknowledgements of other connections that are only in memory, because a failure of
    // this batch discards what is only in memory.
    if (broker.queues.isStale) vhost.storeAll(turn);
    return turn.step(() => {
      vhost.undoBroker(turn);
      for (const one of writes) {
        if ('opened' in one) openConnection(turn, vhost, connectionId, one.opened);
        else if ('frame' in one) answers.push(...applyFrame(turn, client, one.frame));
        else answers.push(deadLetter(turn, client, one.malformed, one.reason));
      }
      vhost.save(turn);
    });
  });
}
