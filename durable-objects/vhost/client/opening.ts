/**
 * The beginning of a connection: the maximum number of connections of a key, and connection.open. A connection
 * begins when the client names the vhost of its key, not when its link opens. A wrong name counts as a rejected
 * attempt and is written to the audit log like a rejected login [C-6.3].
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { StreamFilter } from '../../../protocol/link/stream.ts';
import { writeConnected, writeRefusedConnection } from '../../../registry/audit-events.ts';
import { type ClientDial, refusalResponse, stateRefusal } from '../../dial.ts';
import { reasonOf } from '../../object/reason.ts';
import type { Turn } from '../../object/turn.ts';
import type { VhostParts } from '../parts.ts';

/** Refuses a connection over the limit of the key (spec: Limits). It does not apply to the connection test of a key. */
export function connectionRefusal({ sockets }: VhostParts, dial: ClientDial): Response | undefined {
  if (dial.isProbe || sockets.count < LIMIT.connectionsPerKey) return undefined;
  return refusalResponse('CONFLICT', `connection limit (${LIMIT.connectionsPerKey}) is reached`);
}

/** Opens an event stream of the key for a Worker, which has authenticated the client. */
export function openStream(vhost: VhostParts, filter: StreamFilter): Response {
  const { key, organization, streams } = vhost;
  if (!key.record || vhost.hasEnded()) return stateRefusal('The API key was revoked or has expired');
  if (organization.record?.isSuspended) return stateRefusal('The organization is suspended');
  organization.keepUp();
  const socket = streams.open(filter);
  if (socket) return new Response(null, { status: 101, webSocket: socket });
  return refusalResponse(
    'CONFLICT',
    `The API key has ${LIMIT.streamsPerKey} open streams, the maximum: close one first`,
  );
}

/** Handles connection.open. `named`: the vhost that the client requested. */
export function openConnection(turn: Turn, vhost: VhostParts, connectionId: string, named: string): void {
  const { key, sockets, database, keepAlive } = vhost;
  const { record } = key;
  if (!record || sockets.isProbe(connectionId)) return;
  const { keyId, keyPrefix, organizationId, slug } = record;
  const address = sockets.addressOf(connectionId);
  const isRight = named === record.vhost;
  if (isRight) key.noteConnection(turn);
  else vhost.counts.add(turn, 'refused_dials/partner/vhost');
  turn.send(() => {
    const written = isRight
      ? writeConnected(database, { organizationId, keyId, keyPrefix }, address, turn.now)
      : writeRefusedConnection(
          database,
          { organizationId, username: slug, address, reason: 'vhost', key: { id: keyId, prefix: keyPrefix } },
          turn.now,
        );
    keepAlive(
      written.catch((error: unknown) =>
        console.warn(
          'audit event of a connection.open not written, the client is accepted or refused all the same',
          {
            keyId,
            reason: reasonOf(error),
          },
        ),
      ),
    );
    if (isRight) vhost.noteUse();
  });
}
