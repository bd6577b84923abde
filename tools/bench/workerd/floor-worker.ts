/**
 * The floor: a Site and a Vhost that only move and store texts, with as many calls, messages and commits as the product's
 * need and without any logic. What they cost is the runtime's price for this shape.
 */
import { DurableObject } from 'cloudflare:workers';
import { CALLS_PATH, FLOOR_VHOST } from '../object-calls.ts';
import { runCalls } from './calls.ts';
import { FloorRows } from './rows.ts';

interface Env {
  SITE: DurableObjectNamespace<Site>;
  VHOST: DurableObjectNamespace<Vhost>;
}

/** A message is a kind and texts; those of a publish are names of Sites, each followed by a command. */
type Message = [kind: string, ...texts: string[]];

abstract class Linked extends DurableObject<Env> {
  override fetch(): Response {
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }

  protected send(...message: Message): void {
    this.ctx.getWebSockets()[0]?.send(JSON.stringify(message));
  }
}

export class Site extends Linked {
  readonly #rows = new FloorRows(this.ctx.storage);
  /** The Vhost that sent the commands. */
  #vhost: DurableObjectStub<Vhost> | undefined;

  /** Commands of a Vhost: stored, and sent to the device. */
  submit(texts: readonly string[]): void {
    this.#vhost ??= this.env.VHOST.get(this.env.VHOST.idFromName(FLOOR_VHOST));
    this.command(texts);
  }

  /** Commands without a Vhost. */
  command(texts: readonly string[]): void {
    const ids = texts.map(() => crypto.randomUUID());
    for (const [index, text] of texts.entries()) this.#rows.addCommand(ids[index] ?? '', text);
    this.send('command', ...ids);
  }

  override async webSocketMessage(_socket: WebSocket, text: string): Promise<void> {
    const [kind, ...texts] = JSON.parse(text) as Message;
    if (kind === 'reading') {
      for (const one of texts) this.#rows.addReading(one);
    } else {
      for (const id of texts) this.#rows.endCommand(id, 'COMPLETED');
      await this.#vhost?.receive(texts);
    }
    this.send('stored', String(texts.length));
  }
}

export class Vhost extends Linked {
  /** Events: sent to the client. */
  receive(texts: readonly string[]): void {
    this.send('event', ...texts);
  }

  override async webSocketMessage(_socket: WebSocket, text: string): Promise<void> {
    const [kind, ...pairs] = JSON.parse(text) as Message;
    // The settlement of events needs no answer.
    if (kind !== 'publish') return;
    const bySite = new Map<string, string[]>();
    for (let index = 0; index < pairs.length; index += 2) {
      const [name = '', command = ''] = pairs.slice(index, index + 2);
      const commands = bySite.get(name) ?? [];
      commands.push(command);
      bySite.set(name, commands);
    }
    await Promise.all(Array.from(bySite, ([name, commands]) => this.#siteOf(name).submit(commands)));
    this.send('stored', String(pairs.length / 2));
  }

  #siteOf(name: string): DurableObjectStub<Site> {
    return this.env.SITE.get(this.env.SITE.idFromName(name));
  }
}

export default {
  fetch: async (request: Request, env: Env): Promise<Response> => {
    const [, object, name = ''] = new URL(request.url).pathname.split('/');
    if (new URL(request.url).pathname === CALLS_PATH) {
      return await runCalls(env as unknown as Parameters<typeof runCalls>[0], request);
    }
    const namespace = object === 'site' ? env.SITE : env.VHOST;
    return await namespace.get(namespace.idFromName(name)).fetch(request);
  },
};
