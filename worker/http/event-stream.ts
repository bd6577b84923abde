/**
 * Serves an event stream as Server-Sent Events [C-12.3]. The Worker holds the client's connection and a socket to the
 * object that has the events, and asks for the next page when the client has read the last one. Only the Worker sends
 * the comments that keep the connection alive, so a stream without events leaves its object asleep.
 */
import type { Context } from 'hono';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { EVENT_STREAM } from '../../protocol/event-journal.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { PING, PONG } from '../../protocol/link/live.ts';
import {
  STREAM_CHARS,
  STREAM_HEADER,
  STREAM_LAST_HEADER,
  type StreamDown,
  type StreamFilter,
  streamDown,
} from '../../protocol/link/stream.ts';
import type { AppContext } from '../env.ts';
import { invalidParameter } from './query.ts';
import { requireShare } from './rate.ts';

interface StreamRequest {
  filter: StreamFilter;
  /** The sequence of the last event that the client has; absent: the stream begins with the next event. */
  after?: number | undefined;
  /** Where the client gave `after`; default: the query parameter. */
  afterName?: 'after' | 'Last-Event-ID';
  /** Aborted when the client has gone. */
  signal: AbortSignal;
  /** Who else must agree, and may end the stream; absent: only the object that has the events. */
  guard?: StreamGuard;
}

export interface StreamGuard {
  /** Opens a socket whose end ends the stream, or answers why the stream may not be opened. */
  open(): Promise<Response>;
  /** Whether the caller may still see the events; asked when the stream opens, and with each comment. */
  isAllowed(): Promise<boolean>;
}

/** Counts the opening of a stream: each begins with reads of D1 and of a journal. */
export async function requireStreamRate(c: Context<AppContext>): Promise<void> {
  const who = `streams:${c.get('tenant').actor.id}`;
  await requireShare(c, who, LIMIT.streamOpensPerMinute, 'event streams opened with this credential');
}

/**
 * Opens the stream at the object and returns the answer for the client; or the object's refusal, as it is.
 */
export async function openEventStream(
  object: { fetch(request: Request): Promise<Response> },
  { filter, after, afterName = 'after', signal, guard }: StreamRequest,
): Promise<Response> {
  const headers = { upgrade: 'websocket', [STREAM_HEADER]: JSON.stringify(filter) };
  const opened = await object.fetch(new Request('https://object/stream', { headers }));
  const { webSocket } = opened;
  if (!webSocket) return opened;
  webSocket.accept();
  const last = Number(opened.headers.get(STREAM_LAST_HEADER) ?? 0);
  if (after !== undefined && last > 0 && after > last) {
    webSocket.close(1000, 'refused');
    throw invalidParameter(`${afterName}: ${after} is after the last event, ${last}`);
  }
  const guarded = await guard?.open().catch((error: unknown) => {
    webSocket.close(1000, 'refused');
    throw error;
  });
  if (guarded && !guarded.webSocket) {
    webSocket.close(1000, 'refused');
    return guarded;
  }
  guarded?.webSocket?.accept();
  const stream = new EventStream(
    [webSocket, ...(guarded?.webSocket ? [guarded.webSocket] : [])],
    after ?? last,
    signal,
    guard,
  );
  // The session may have ended while the stream was opened.
  await stream.check();
  const { body } = stream;
  return new Response(body, {
    headers: {
      'content-type': EVENT_STREAM,
      'cache-control': 'no-store',
      // A proxy that collects an answer before it passes it on would hold events back.
      'x-accel-buffering': 'no',
    },
  });
}

class EventStream {
  readonly body: ReadableStream<Uint8Array>;
  /** To the object that has the events. */
  readonly #socket: WebSocket;
  readonly #sockets: readonly WebSocket[];
  readonly #guard: StreamGuard | undefined;
  readonly #encoder = new TextEncoder();
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #after: number;
  /** How many characters are left that the object may send without being asked again. */
  #left = 0;
  #comments: number | null = null;
  /** Time since the begin, in whole intervals of comments. */
  #openMs = 0;

  constructor(
    sockets: readonly [WebSocket, ...WebSocket[]],
    after: number,
    signal: AbortSignal,
    guard: StreamGuard | undefined,
  ) {
    [this.#socket] = sockets;
    this.#sockets = sockets;
    this.#guard = guard;
    this.#after = after;
    this.#socket.addEventListener('message', ({ data }) => this.#receive(data));
    for (const socket of sockets) {
      socket.addEventListener('close', () => this.#close());
      socket.addEventListener('error', () => this.#close());
    }
    signal.addEventListener('abort', () => this.#close());
    this.#comments = setInterval(() => this.#comment(), LIMIT.streamCommentMs);
    this.body = new ReadableStream({
      start: (controller) => {
        this.#controller = controller;
        // With an id, a client that has had no event yet resumes here, too.
        this.#write(`retry: ${LIMIT.streamRetryMs}\nid: ${after}\n\n`);
      },
      // Called when the client has read what was written.
      pull: () => this.#ask(),
      cancel: () => this.#close(),
    });
    if (signal.aborted) this.#close();
  }

  /** Asks for more when the client has read what there was, and the object may not send much more by itself. */
  #ask(): void {
    if (this.#left > STREAM_CHARS / 2 || (this.#controller?.desiredSize ?? 0) <= 0) return;
    this.#left = STREAM_CHARS;
    this.#send(JSON.stringify({ after: this.#after, chars: STREAM_CHARS }));
  }

  /** The object sends pages, and the runtime answers pings; anything else is the object's goodbye. */
  #receive(data: unknown): void {
    if (data === PONG) return;
    const page = streamDown.safeParse(parsed(data));
    if (!page.success) {
      this.#close();
      return;
    }
    this.#left = page.data.left ?? 0;
    const text = pageText(page.data, this.#after);
    this.#after = Math.max(this.#after, page.data.next);
    if (text !== '') this.#write(text);
    this.#ask();
  }

  /**
   * Called at each interval; ends the stream in time. The ping proves to the object that the Worker lives: the runtime
   * answers it without waking the object.
   */
  #comment(): void {
    this.#openMs += LIMIT.streamCommentMs;
    if (this.#openMs >= LIMIT.streamMs) {
      this.#close();
      return;
    }
    this.#write(':\n\n');
    for (const socket of this.#sockets) this.#send(PING, socket);
    void this.check();
  }

  async check(): Promise<void> {
    try {
      if ((await this.#guard?.isAllowed()) === false) this.#close();
    } catch (error) {
      console.warn('access to an event stream not checked, the next comment repeats it', {
        reason: reasonOf(error),
      });
    }
  }

  #write(text: string): void {
    try {
      this.#controller?.enqueue(this.#encoder.encode(text));
    } catch {
      // The client has gone.
      this.#close();
    }
  }

  #send(text: string, socket = this.#socket): void {
    try {
      socket.send(text);
    } catch (error) {
      console.warn('event stream lost its object, the client resumes', { reason: reasonOf(error) });
      this.#close();
    }
  }

  #close(): void {
    const controller = this.#controller;
    if (!controller) return;
    this.#controller = undefined;
    clearInterval(this.#comments);
    const ends = this.#sockets.map((socket) => () => socket.close(1000, 'stream ended'));
    for (const end of [() => controller.close(), ...ends]) {
      try {
        end();
      } catch {
        // It is already closed.
      }
    }
  }
}

/** What is new for a client that has the events up to `after`: an object that hibernated may send some again. */
function pageText({ events, firstKept }: StreamDown, after: number): string {
  const gap =
    firstKept === undefined || firstKept - 1 <= after
      ? ''
      : `id: ${firstKept - 1}\nevent: gap\ndata: ${JSON.stringify({ firstKept })}\n\n`;
  const texts = events
    .filter(({ sequence }) => sequence > after)
    .map(({ sequence, kind, body }) => `id: ${sequence}\nevent: ${kind}\ndata: ${body}\n\n`);
  return gap + texts.join('');
}

function parsed(data: unknown): unknown {
  try {
    return JSON.parse(String(data));
  } catch {
    return undefined;
  }
}
