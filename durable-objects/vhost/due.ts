/** What the agenda of a vhost runs, besides the parts that are due sources themselves. */
import { CLOSE_CODES } from '../../protocol/link/live.ts';
import type { DueSource } from '../object/agenda.ts';
import type { VhostParts } from './parts.ts';

export function dueSources(vhost: VhostParts): DueSource[] {
  const { sockets, outflow, journal } = vhost;
  /** Closes half-open connections, which have shown no sign of life for one to two minutes (rule 2). */
  const silence: DueSource = {
    name: 'silent connections',
    dueMs: () => sockets.silentAtMs(),
    run: (turn) => {
      const silent = sockets.silent(turn.now);
      vhost.closeConnections(turn, silent, CLOSE_CODES.takenOver, 'no frame or ping from the bridge');
      turn.send(() => outflow.send());
    },
  };
  const age: DueSource = {
    name: 'message age',
    dueMs: () => vhost.broker.queues.agedAtMs(),
    run: (turn) => {
      vhost.undoBroker(turn);
      vhost.broker.queues.dropAged(turn);
      vhost.storeAll(turn);
    },
  };
  const kept: DueSource = {
    name: 'event journal',
    dueMs: () => journal.dueMs(),
    run: (turn) => vhost.keepJournal(turn),
  };
  return [silence, age, kept];
}
