/** Records the publishes of a key, or the command of a person, and returns what its sender needs to know. */

import type { PlantCopy } from '../../../registry/plant-copy.ts';
import type { Clock } from '../../object/clock.ts';
import type { Turns } from '../../object/turn.ts';
import type { OutboxEvent, SubmissionBatch, SubmitAnswer } from '../../rpc.ts';
import { auditRow } from '../event/event-rows.ts';
import type { Outbox } from '../event/outbox.ts';
import type { SiteIdentity } from '../identity.ts';
import type { Submissions } from './submissions.ts';

export interface SubmitHost {
  clock: Clock;
  turns: Turns;
  identity: SiteIdentity;
  registry: PlantCopy;
  outbox: Outbox;
  submissions: Submissions;
}

export async function submitBatch(
  { clock, turns, identity, registry, outbox, submissions }: SubmitHost,
  batch: SubmissionBatch,
): Promise<SubmitAnswer> {
  const { siteId, keyId, notAfterMs, received, seen, audit } = batch;
  identity.be(siteId);
  await registry.fresh();
  // The sender has given these up or is about to: they must not take effect.
  if (clock.now() > notAfterMs) return { outcomes: batch.submissions.map(() => 'failed'), events: [] };
  // A person has no Vhost that gets events.
  const hasVhost = keyId !== '';
  if (hasVhost) outbox.noteSeen(keyId, received, seen);
  const events: OutboxEvent[] = [];
  const recorded = turns.run(
    (turn) => {
      const results = submissions.recordBatch(turn, batch).map((recording) => recording?.result ?? null);
      const outcomes = results.map((result) => (result ? ('recorded' as const) : ('failed' as const)));
      if (audit)
        for (const result of results) {
          // Also for a repeat: D1 stores one event for a command.
          if (!result) continue;
          const { commandId } = result;
          const entry = { ...audit, details: { ...audit.details, commandId } };
          outbox.emit(turn, auditRow(`${audit.event}|${commandId}`, entry, turn.now));
        }
      const isWanted = batch.submissions.some(({ wantsResult }) => wantsResult);
      return { outcomes, ...(isWanted ? { results } : {}) };
    },
    () => hasVhost && events.push(...outbox.handOver(keyId)),
  );
  return { ...recorded, events };
}
