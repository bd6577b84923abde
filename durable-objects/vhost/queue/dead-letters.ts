/** The dead letters of a key over REST: reads them, puts them back and deletes them [C-12.5]. */
import {
  DEAD_LETTER_ID,
  type DeadLetter,
  type DeadLetterRefusal,
  type Requeued,
} from '../../../protocol/dead-letter.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { PublishFrame } from '../../../protocol/link/vhost.ts';
import { authorizePublish } from '../../../protocol/publish-right.ts';
import { EXCHANGE } from '../../../protocol/routing-keys.ts';
import type { Turn } from '../../object/turn.ts';
import type { KeyRecord } from '../key/key.ts';
import type { VhostParts } from '../parts.ts';
import { readEnvelope } from '../publish/publish.ts';
import type { Place, Queue } from './queue.ts';

const QUEUE = 'dead-letter';
/** A page ends after the dead letter with which it has this many characters. */
const PAGE_CHARS = 512 * 1_024;

/** Position and index are used again when the queue is empty, so an id also has the time. */
function idOf({ position, index, message }: Place): string {
  return `${position}-${index}-${message.createdAtMs}`;
}

function queueOf({ broker }: VhostParts): Queue {
  return broker.queues.ours(QUEUE);
}

export function listDeadLetters(
  vhost: VhostParts,
  after: string | null,
  limit: number,
): { deadLetters: DeadLetter[]; next: string | null } | DeadLetterRefusal {
  if (vhost.hasEnded()) return { refused: 'ended' };
  const [position = -1, index = -1] = (DEAD_LETTER_ID.exec(after ?? '') ?? []).slice(1).map(Number);
  const deadLetters: DeadLetter[] = [];
  let chars = 0;
  for (const place of queueOf(vhost).messagesAfter(position, index)) {
    if (deadLetters.length === limit || chars > PAGE_CHARS)
      return { deadLetters, next: deadLetters.at(-1)?.id ?? null };
    deadLetters.push(recordOf(place));
    chars += place.message.body.length;
  }
  return { deadLetters, next: null };
}

function recordOf(place: Place): DeadLetter {
  const { routingKey, properties, body, encoding, createdAtMs } = place.message;
  return {
    id: idOf(place),
    reason: String(properties.headers?.['x-death-reason'] ?? ''),
    deadLetteredAt: formatInstant(createdAtMs),
    queue: properties.death?.queue ?? '',
    ...{ routingKey, body, encoding, isHeld: place.isLeased },
  };
}

export function deleteDeadLetter(vhost: VhostParts, id: string): 'deleted' | DeadLetterRefusal {
  const place = find(vhost, id);
  if ('refused' in place) return place;
  vhost.turns.run((turn) => remove(turn, vhost, place));
  return 'deleted';
}

/**
 * Publishes a dead letter again. A publish is judged again: it is recorded, or dead-lettered again. An event goes back
 * to the queue that it came from.
 */
export async function requeueDeadLetter(
  vhost: VhostParts,
  id: string,
): Promise<Requeued | DeadLetterRefusal> {
  const place = find(vhost, id);
  const { record } = vhost.key;
  if ('refused' in place) return place;
  if (!record) return { refused: 'ended' };
  const { message } = place;
  const origin = vhost.broker.queues.byFullName(message.properties.death?.queue ?? '');
  if (!origin) return await publishAgain(vhost, record, place, id);
  vhost.turns.run((turn) => {
    remove(turn, vhost, place);
    const { headers: _headers, death: _death, ...properties } = message.properties;
    origin.push(turn, { ...message, properties, createdAtMs: turn.now });
  });
  vhost.outflow.send();
  return { requeuedFrom: id, outcome: 'QUEUED' };
}

async function publishAgain(
  vhost: VhostParts,
  record: KeyRecord,
  place: Place,
  id: string,
): Promise<Requeued | DeadLetterRefusal> {
  const { key, turns, broker } = vhost;
  const { routingKey, properties, body, encoding } = place.message;
  const allowed = authorizePublish(key.names, key.scopes, EXCHANGE, routingKey);
  if (!allowed.ok) return { refused: 'forbidden', text: allowed.refusal.text };
  const frame: PublishFrame = {
    ...{ kind: 'publish', seq: 1, exchange: EXCHANGE, routingKey, body, encoding },
    properties: properties.raw ?? '',
  };
  const envelope = readEnvelope(frame);
  if (!envelope.ok) {
    const death = properties.death ?? { queue: '', reason: 'rejected' as const };
    return turns.run((turn) => {
      remove(turn, vhost, place);
      const { headers: _headers, death: _death, ...before } = properties;
      broker.queues.bury(turn, { ...place.message, properties: before }, envelope.refusal, death);
      return { requeuedFrom: id, outcome: 'DEAD_LETTERED', reason: envelope.refusal };
    });
  }
  const publish = { frame, family: allowed.value, envelope: envelope.value };
  if (!(await vhost.publisher.publishAndWait(record, publish, vhost.clock.now())))
    return { refused: 'unstored' };
  // The client may have settled it in the meantime.
  const now = find(vhost, id);
  if (!('refused' in now)) turns.run((turn) => remove(turn, vhost, now));
  return { requeuedFrom: id, outcome: 'RECORDED' };
}

/** A dead letter that no client has. */
function find(vhost: VhostParts, id: string): Place | DeadLetterRefusal {
  if (vhost.hasEnded()) return { refused: 'ended' };
  const [position, index, atMs] = (DEAD_LETTER_ID.exec(id) ?? []).slice(1).map(Number);
  if (position === undefined || index === undefined) return { refused: 'absent' };
  const [place] = queueOf(vhost).messagesAfter(position, index - 1);
  const isIt = place?.position === position && place.index === index && place.message.createdAtMs === atMs;
  if (!place || !isIt) return { refused: 'absent' };
  return place.isLeased ? { refused: 'held' } : place;
}

function remove(turn: Turn, vhost: VhostParts, place: Place): void {
  queueOf(vhost).remove(place);
  vhost.storeAll(turn);
}
