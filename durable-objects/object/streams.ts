/**
 * The event streams of a key or a plant: hibernating sockets to Workers, which pull one page after another. A stream
 * that has all events waits for the next turn that has one; until then its object may sleep.
 */
import { LIMIT } from '../../protocol/limits.ts';
import { CLOSE_CODES } from '../../protocol/link/live.ts';
import { type StreamDown, type StreamFilter, streamUp } from '../../protocol/link/stream.ts';
import type { EventKind } from '../../protocol/routing-keys.ts';
import { type DueSource, earliest } from './agenda.ts';
import type { Clock } from './clock.ts';
import { endLink } from './sockets.ts';
import type { Turn, Turns } from './turn.ts';

const TAG = 'stream';
const PAGE_EVENTS = 100;
/** A Worker pings with each comment to its client. After two silent intervals its stream is closed. */
const SILENT_MS = 2 * LIMIT.streamCommentMs;
/** A Worker ends its stream in time; this is for one that has gone without a close event. */
const LATEST_MS = LIMIT.streamMs + 60_000;

/**
 * A stream stores its place at most once in this time. After a hibernation it may send events again; the Worker ignores
 * those that it has.
 */
const SAVE_MS = 1_000;

/** What survives hibernation. */
interface Attachment extends StreamFilter {
  openedAtMs: number;
  /** The sequence after which the stream waits for an event; null before the Worker has asked. */
  waitsAfter: number | null;
  /** Characters that the Worker still wants. */
  credit: number;
}

interface Stream extends Attachment {
  socket: WebSocket;
  askedAtMs: number;
  savedAtMs: number;
}

/** What streams show. */
export interface StreamSource {
  /** Sequence of the last event that may be shown. */
  readonly last: number;
  /** The kinds of the events that wait and must be stored before they are shown, from `showAtMs` on. */
  readonly pendingKinds: ReadonlySet<EventKind>;
  readonly showAtMs: number;
  flush(turn: Turn, isCovered: false): void;
  read(query: { after: number; limit: number } & StreamFilter): {
    events: { sequence: number; kind: EventKind; body: string }[];
    /** The sequence to continue after. */
    next: number;
    firstKept: number;
    /** Whether events after `after` are no longer kept. */
    gap: boolean;
  };
}

export interface StreamsHost {
  ctx: DurableObjectState;
  clock: Clock;
  turns: Turns;
  source: StreamSource;
  /** Maximum number of open streams. */
  most: number;
  keepAlive(work: Promise<void>): void;
  /**
   * Called when the object is loaded: the sequence after which a stream waits that was waiting before. Absent: the same
   * one, because the events are stored.
   */
  waitsAgain?(after: number): number;
}

export class Streams implements DueSource {
  readonly name = 'event streams';
  readonly #host: StreamsHost;
  readonly #streams = new Map<WebSocket, Stream>();
  #isShowing = false;

  constructor(host: StreamsHost) {
    this.#host = host;
    for (const socket of host.ctx.getWebSockets(TAG)) {
      const attachment = socket.deserializeAttachment() as Attachment | null;
      if (!attachment || socket.readyState !== WebSocket.OPEN) continue;
      const { waitsAfter, credit } = attachment;
      // A stream whose Worker had not asked for more may have missed events.
      const isWaiting = waitsAfter !== null && credit > 0;
      const after = isWaiting ? (host.waitsAgain?.(waitsAfter) ?? waitsAfter) : waitsAfter;
      this.#streams.set(socket, {
        ...{ ...attachment, waitsAfter: after, socket },
        ...{ askedAtMs: 0, savedAtMs: 0 },
      });
    }
  }

  /** Whether a stream waits for an event of one of these kinds. */
  isAwaited(kinds: ReadonlySet<EventKind>): boolean {
    if (kinds.size === 0) return false;
    for (const { credit, kinds: wanted } of this.#streams.values())
      if (credit > 0 && (wanted?.some((kind) => kinds.has(kind)) ?? true)) return true;
    return false;
  }

  has(socket: WebSocket): boolean {
    return this.#streams.has(socket);
  }

  get count(): number {
    return this.#streams.size;
  }

  /** Opens a stream and returns the Worker's end; undefined if the maximum number is open. */
  open(filter: StreamFilter): WebSocket | undefined {
    this.#closeSilent();
    if (this.#streams.size >= this.#host.most) return undefined;
    const [client, server] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket];
    this.#host.ctx.acceptWebSocket(server, [TAG]);
    const openedAtMs = this.#host.clock.now();
    const stream: Stream = {
      ...{ ...filter, openedAtMs, waitsAfter: null, credit: 0, socket: server },
      ...{ askedAtMs: 0, savedAtMs: 0 },
    };
    this.#streams.set(server, stream);
    this.#save(stream);
    return client;
  }

  /** Handles a message of the Worker; closes the stream if it is not valid. */
  receive(socket: WebSocket, message: string | ArrayBuffer): void {
    const stream = this.#streams.get(socket);
    const asked = streamUp.safeParse(typeof message === 'string' ? parsed(message) : undefined);
    if (!stream) return;
    if (!asked.success) {
      this.#close(stream, CLOSE_CODES.protocolError, 'not a request for events');
      return;
    }
    stream.askedAtMs = this.#host.clock.now();
    // The Worker may have asked before it got the last page.
    stream.waitsAfter = Math.max(stream.waitsAfter ?? 0, asked.data.after);
    stream.credit = asked.data.chars;
    this.#serve(stream);
    this.#save(stream);
  }

  /** The socket has closed. */
  forget(socket: WebSocket): void {
    this.#streams.delete(socket);
  }

  closeAll(turn: Turn, code: number, reason: string): void {
    turn.send(() => {
      for (const stream of [...this.#streams.values()]) this.#close(stream, code, reason);
    });
  }

  /** Must be called after each turn: serves the streams that wait, and stores what they wait for. */
  show(): void {
    if (this.#streams.size === 0) return;
    for (const stream of [...this.#streams.values()])
      if (this.#serve(stream) && this.#mustSave(stream)) this.#save(stream);
    if (this.#isShowing || !this.isAwaited(this.#host.source.pendingKinds)) return;
    this.#isShowing = true;
    this.#host.keepAlive(this.#storeSoon());
  }

  // agenda

  dueMs(): number | undefined {
    const opened = earliest([...this.#streams.values()].map(({ openedAtMs }) => openedAtMs));
    return opened === undefined ? undefined : opened + LATEST_MS;
  }

  run(turn: Turn): void {
    turn.send(() => {
      for (const stream of [...this.#streams.values()])
        if (stream.openedAtMs + LATEST_MS <= turn.now)
          this.#close(stream, CLOSE_CODES.takenOver, 'open too long');
    });
  }

  /** Sends the next pages to a stream that waits, as many as its Worker wants. Returns false if it sent none. */
  #serve(stream: Stream): boolean {
    let isServed = false;
    while (this.#sendPage(stream)) isServed = true;
    return isServed;
  }

  #sendPage(stream: Stream): boolean {
    const { source } = this.#host;
    const { kinds, siteIds, waitsAfter: after } = stream;
    if (after === null || stream.credit <= 0 || after >= source.last) return false;
    const page = source.read({ after, limit: PAGE_EVENTS, kinds, siteIds });
    stream.waitsAfter = page.next;
    const isEmpty = page.events.length === 0 && !page.gap;
    if (isEmpty && page.next >= source.last) return false;
    const chars = page.events.reduce((sum, { body }) => sum + body.length, 0);
    // After many events of other types or sites the Worker asks again, so that one stream does not hold up the object.
    stream.credit = isEmpty ? 0 : Math.max(0, stream.credit - Math.max(1, chars));
    const down: StreamDown = {
      events: page.events.map(({ sequence, kind, body }) => ({ sequence, kind, body })),
      next: page.next,
      ...(page.gap ? { firstKept: page.firstKept } : {}),
      left: stream.credit,
    };
    try {
      stream.socket.send(JSON.stringify(down));
      return true;
    } catch {
      // The socket has just closed: its close event forgets it, and the client resumes from its last event.
      this.#streams.delete(stream.socket);
      return false;
    }
  }

  async #storeSoon(): Promise<void> {
    const { clock, turns, source } = this.#host;
    try {
      const waitMs = Math.max(0, source.showAtMs - clock.now());
      await new Promise((resolve) => setTimeout(resolve, waitMs));
    } finally {
      this.#isShowing = false;
    }
    if (source.pendingKinds.size > 0) turns.run((turn) => source.flush(turn, false));
  }

  #closeSilent(): void {
    const { clock, ctx } = this.#host;
    const oldest = clock.now() - SILENT_MS;
    for (const stream of [...this.#streams.values()]) {
      const { socket, openedAtMs, askedAtMs } = stream;
      const pinged = ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
      if (Math.max(pinged, openedAtMs, askedAtMs) < oldest)
        this.#close(stream, CLOSE_CODES.takenOver, 'no sign of life from the Worker');
    }
  }

  #close({ socket }: Stream, code: number, reason: string): void {
    this.#streams.delete(socket);
    endLink(socket, code, reason);
  }

  /** A stream that waits no longer is stored at once: after a hibernation it must not seem to have everything. */
  #mustSave({ credit, savedAtMs }: Stream): boolean {
    return credit === 0 || this.#host.clock.now() - savedAtMs >= SAVE_MS;
  }

  #save(stream: Stream): void {
    const { socket, openedAtMs, waitsAfter, credit, kinds, siteIds } = stream;
    stream.savedAtMs = this.#host.clock.now();
    socket.serializeAttachment({ openedAtMs, waitsAfter, credit, kinds, siteIds } satisfies Attachment);
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
