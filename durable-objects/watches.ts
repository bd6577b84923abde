/**
 * The open streams of plants of one person, or of one support session [C-15.4]: a hibernating socket to the Worker that
 * serves each. The object counts them, and closes those whose session or membership has ended. It stores nothing.
 */
import { DurableObject } from 'cloudflare:workers';
import { LIMIT } from '../protocol/limits.ts';
import { CLOSE_CODES, PING, PONG } from '../protocol/link/live.ts';
import { mayWatch } from '../registry/live-watchers.ts';
import { notFoundResponse, refusalResponse } from './dial.ts';
import type { Env } from './env.ts';
import { reasonOf } from './object/reason.ts';
import { closeQuietly } from './object/sockets.ts';
import { WATCHER_HEADER, type Watcher, type WatchesRpc } from './watches-rpc.ts';

/** A Worker pings with each comment to its client. After two silent intervals its stream has gone. */
const SILENT_MS = 2 * LIMIT.streamCommentMs;

interface Attachment extends Watcher {
  openedAtMs: number;
}

export class Watches extends DurableObject<Env> implements WatchesRpc {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING, PONG));
  }

  /** Takes a place for a stream; 409 if the person has as many as one may have. */
  override fetch({ headers }: Request): Response {
    const header = headers.get(WATCHER_HEADER);
    if (header === null) return notFoundResponse();
    const watcher = JSON.parse(header) as Watcher;
    this.#closeSilent();
    const open = this.#open();
    const ofPlant = open.filter(([, { plantId }]) => plantId === watcher.plantId).length;
    if (ofPlant >= LIMIT.streamsOfPlantPerPerson)
      return full(
        `You have ${ofPlant} open streams of this plant, of at most ${LIMIT.streamsOfPlantPerPerson}`,
      );
    if (open.length >= LIMIT.streamsPerPerson)
      return full(`You have ${open.length} open streams of plants, of at most ${LIMIT.streamsPerPerson}`);
    const [client, server] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket];
    this.ctx.acceptWebSocket(server);
    server.serializeAttachment({ ...watcher, openedAtMs: Date.now() } satisfies Attachment);
    return new Response(null, { status: 101, webSocket: client });
  }

  async recheck(): Promise<void> {
    const open = this.#open();
    const watchers = open.map(([, watcher]) => watcher);
    const may = await mayWatch(this.env.DB, watchers, Date.now()).catch((error: unknown) => {
      console.warn(
        'sessions of event streams not checked, the streams end and their clients open them again',
        {
          reason: reasonOf(error),
        },
      );
      return () => false;
    });
    for (const [socket, watcher] of open)
      if (!may(watcher)) closeQuietly(socket, CLOSE_CODES.revoked, 'session ended');
  }

  override webSocketMessage(socket: WebSocket): void {
    closeQuietly(socket, CLOSE_CODES.protocolError, 'no message is expected');
  }

  override webSocketClose(socket: WebSocket): void {
    closeQuietly(socket, 1000, '');
  }

  #open(): [WebSocket, Attachment][] {
    return this.ctx.getWebSockets().flatMap((socket): [WebSocket, Attachment][] => {
      const attachment = socket.deserializeAttachment() as Attachment | null;
      return attachment && socket.readyState === WebSocket.OPEN ? [[socket, attachment]] : [];
    });
  }

  #closeSilent(): void {
    const oldest = Date.now() - SILENT_MS;
    for (const [socket, { openedAtMs }] of this.#open()) {
      const pinged = this.ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
      if (Math.max(pinged, openedAtMs) < oldest)
        closeQuietly(socket, CLOSE_CODES.takenOver, 'no sign of life from the Worker');
    }
  }
}

function full(message: string): Response {
  return refusalResponse('CONFLICT', `${message}: close one first`);
}
