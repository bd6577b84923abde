/** Streams of a plant's events for the people of its organization, whom the Worker has authenticated [C-12.3]. */
import { LIMIT } from '../../../protocol/limits.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import { STREAM_HEADER, STREAM_LAST_HEADER, streamFilter } from '../../../protocol/link/stream.ts';
import type { PlantRecord } from '../../../registry/plant-copy.ts';
import { notFoundResponse, refusalResponse } from '../../dial.ts';
import type { Streams } from '../../object/streams.ts';
import type { Turn } from '../../object/turn.ts';
import type { PlantEvents } from './plant-events.ts';

/**
 * Answers a request that opens a stream; undefined for any other request. `ready`: waits for a copy of the plant, which says
 * when its streams must end.
 */
export async function openWatcher(
  { watchers, plantEvents }: { watchers: Streams; plantEvents: PlantEvents },
  { headers }: Request,
  ready: (siteId: string) => Promise<void>,
): Promise<Response | undefined> {
  const filter = headers.get(STREAM_HEADER);
  if (filter === null) return undefined;
  const { kinds, siteIds: [siteId] = [] } = streamFilter.parse(JSON.parse(filter));
  if (siteId === undefined) return notFoundResponse();
  await ready(siteId);
  plantEvents.begin();
  const socket = watchers.open({ kinds });
  const last = { [STREAM_LAST_HEADER]: String(plantEvents.last) };
  if (socket) return new Response(null, { status: 101, webSocket: socket, headers: last });
  return refusalResponse(
    'CONFLICT',
    `The plant has ${LIMIT.streamsPerPlant} open streams, the maximum: close one first`,
  );
}

/** Ends all streams if nobody may see the plant now: it is deleted, or its organization suspended. */
export function endWatchers(
  turn: Turn,
  { watchers, plantEvents }: { watchers: Streams; plantEvents: PlantEvents },
  record: PlantRecord | undefined,
): void {
  if (watchers.count === 0 || record?.isSuspended === false) return;
  watchers.closeAll(turn, CLOSE_CODES.revoked, 'plant deleted, or organization suspended');
  turn.send(() => plantEvents.left());
}
