/** Answers a read of the journal over HTTPS [C-12.2]. */
import { eventRoutingKey } from '../../../protocol/routing-keys.ts';
import type { JournalAnswer, JournalQuery } from '../../journal-rpc.ts';
import type { VhostParts } from '../parts.ts';

export function answerJournal(vhost: VhostParts, query: JournalQuery): JournalAnswer {
  const { key, journal, turns } = vhost;
  if (!key.record || vhost.hasEnded()) return { refused: key.isRevoked || key.record ? 'ended' : 'none' };
  vhost.organization.keepUp();
  // A reader of other events needs no telemetry, which is then stored with them.
  const wantsTelemetry = query.kinds?.includes('telemetry') ?? true;
  const mustNote = wantsTelemetry && journal.mustNoteRead(vhost.clock.now());
  // Readers get only stored events.
  if (journal.hasPending || mustNote)
    turns.run((turn) => {
      if (mustNote) journal.noteRead(turn);
      journal.flush(turn, false);
    });
  const { events, ...page } = journal.read(query);
  const { slug } = key.names;
  const items = events.map(({ sequence, kind, body }) =>
    JSON.stringify({ sequence, routingKey: eventRoutingKey(slug, kind), event: body }),
  );
  return { ...page, items: items.join(',') };
}
