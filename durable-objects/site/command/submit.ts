/** A batch of one key's publishes, all in one turn, in order. */
import type { SubmissionBatch, SubmitAnswer } from '../../rpc.ts';
import type { SiteParts } from '../parts.ts';
import { recordSubmission } from './receive.ts';

/** `sendLater`: when its commands go to their devices. */
export function submitBatch(
  site: SiteParts,
  batch: SubmissionBatch,
  sendLater: (send: () => void) => void,
): SubmitAnswer {
  const { outbox, turns, clock } = site;
  // Its Vhost has given these up: nothing of them may come true any more.
  if (clock.now() > (batch.notAfterMs ?? Number.POSITIVE_INFINITY)) {
    return { outcomes: batch.submissions.map(() => 'failed'), events: [] };
  }
  outbox.noteSeen(batch.keyId, batch.received, batch.seen);
  const outcomes = turns.run(
    (turn) =>
      batch.submissions.map((submission) =>
        turn.step(() => recordSubmission(turn, site, batch, submission)) ? 'recorded' : 'failed',
      ),
    sendLater,
  );
  return { outcomes, events: outbox.handOver(batch.keyId) };
}
