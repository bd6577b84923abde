/** Streams of a plant's events for the people of its organization, whom the Worker has authenticated [C-12.3]. */
import { LIMIT } from '../../../protocol/limits.ts';
import { STREAM_HEADER, STREAM_LAST_HEADER, streamFilter } from '../../../protocol/link/stream.ts';
import { refusalResponse } from '../../dial.ts';
import type { Streams } from '../../object/streams.ts';
import type { PlantEvents } from './plant-events.ts';

/** Answers a request that opens a stream; undefined for any other request. */
export function openWatcher(
  { watchers, plantEvents }: { watchers: Streams; plantEvents: PlantEvents },
  { headers }: Request,
): Response | undefined {
  const filter = headers.get(STREAM_HEADER);
  if (filter === null) return undefined;
  plantEvents.begin();
  const socket = watchers.open(streamFilter.parse(JSON.parse(filter)));
  const last = { [STREAM_LAST_HEADER]: String(plantEvents.last) };
  if (socket) return new Response(null, { status: 101, webSocket: socket, headers: last });
  return refusalResponse(
    'CONFLICT',
    `The plant has ${LIMIT.streamsPerPlant} open streams, the maximum: close one first`,
  );
}
