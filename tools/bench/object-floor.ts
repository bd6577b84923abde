/** The floor's side: Miniflare with the Worker of the same shape without logic, and its clients. */
import { once } from 'node:events';
import { join } from 'node:path';
import { WebSocket } from 'ws';
import { workerdPid } from '../edge.ts';
import { compatibilityDate, moduleOptions } from '../edge-workers.ts';
import { readableModules } from '../worker-build.ts';
import { GENERATOR_CORE, pin, SYSTEM_CORE } from './cores.ts';
import { callObject, FLOOR_VHOST } from './object-calls.ts';
import { type ObjectSide, SITES } from './object-paths.ts';

/** As large as a reading, a command and an event of the product. */
const READING = 'r'.repeat(360);
const COMMAND = 'c'.repeat(450);
const EVENT = 'e'.repeat(400);
/** As many as on the product's side. */
const OPEN_BATCHES = 4;

export async function startFloor(folder: string): Promise<ObjectSide> {
  const { convertV4MiniflareOptions, Miniflare } = await import('miniflare');
  const modules = await readableModules(join(import.meta.dirname, 'workerd', 'floor-worker.ts'));
  pin(process.pid, SYSTEM_CORE);
  const before = workerdPid();
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      ...{ host: '127.0.0.1', port: 0, resourcePersistencePath: folder },
      compatibilityDate: compatibilityDate(),
      modules: moduleOptions(modules),
      durableObjects: {
        SITE: { className: 'Site', useSQLite: true },
        VHOST: { className: 'Vhost', useSQLite: true },
      },
    }),
  );
  const url = String(await miniflare.ready).replace(/\/$/, '');
  const pid = workerdPid(before) ?? 0;
  pin(process.pid, GENERATOR_CORE);
  const names = Array.from({ length: SITES }, (_, index) => `site-${index}`);
  const devices = await Promise.all(names.map((name) => FloorClient.open(url, 'site', name)));
  const client = await FloorClient.open(url, 'vhost', FLOOR_VHOST);
  const [device] = devices as [FloorClient];
  const [site = ''] = names;
  // The devices acknowledge commands at once, and the client settles events.
  for (const one of devices) one.answers('command', (ids) => one.send('ack', ...ids));
  client.answers('event', (texts) => client.send('settle', String(texts.length)));
  let turn = 0;
  const many = (text: string, count: number) => Array.from({ length: count }, () => text);
  const inTurn = async (operations: number, batch: number, one: () => Promise<void>) => {
    for (let done = 0; done < operations; done += batch) await one();
  };
  return {
    pid,
    paths: {
      reading: async (operations, batch) => {
        const last = device.counts('stored', operations);
        let sent = 0;
        const send = () => {
          if (sent >= operations) return;
          sent += batch;
          device.send('reading', ...many(READING, batch));
        };
        device.answers('stored', send);
        for (let open = 0; open < OPEN_BATCHES; open++) send();
        await last;
        device.answers('stored', () => {});
      },
      'command of a Site': async (operations, batch) => {
        const last = device.counts('stored', operations);
        const groups = Array.from({ length: operations / batch }, () =>
          many(COMMAND, batch).map((one) => [[one]]),
        );
        await callObject(url, { object: 'SITE', name: site, method: 'command', groups });
        await last;
      },
      'command of a Vhost and a Site': (operations, batch) =>
        inTurn(operations, batch, async () => {
          const last = client.counts('event', batch);
          client.send('publish', ...many(site, batch).flatMap((name) => [name, COMMAND]));
          await last;
        }),
      'command of a Vhost, each to its own Site': (operations, batch) =>
        inTurn(operations, batch, async () => {
          const last = client.counts('event', batch);
          const some = Array.from({ length: batch }, () => names[turn++ % SITES] ?? '');
          client.send('publish', ...some.flatMap((name) => [name, COMMAND]));
          await last;
        }),
      'event of a Vhost': async (operations, batch) => {
        const last = client.counts('event', operations);
        const groups = Array.from({ length: operations / batch }, () => [[many(EVENT, batch)]]);
        await callObject(url, { object: 'VHOST', name: FLOOR_VHOST, method: 'receive', groups });
        await last;
      },
    },
    stop: async () => {
      for (const one of [...devices, client]) one.close();
      await miniflare.dispose();
    },
  };
}

class FloorClient {
  readonly #socket: WebSocket;
  readonly #answers = new Map<string, (texts: string[]) => void>();
  #counting: { kind: string; left: number; resolve: () => void } | undefined;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', (data) => this.#receive(String(data)));
  }

  static async open(url: string, object: 'site' | 'vhost', name: string): Promise<FloorClient> {
    const socket = new WebSocket(`${url.replace('http', 'ws')}/${object}/${name}`, {
      perMessageDeflate: false,
    });
    const client = new FloorClient(socket);
    await once(socket, 'open');
    return client;
  }

  send(kind: string, ...texts: string[]): void {
    this.#socket.send(JSON.stringify([kind, ...texts]));
  }

  /** What to do at each message of that kind. */
  answers(kind: string, answer: (texts: string[]) => void): void {
    this.#answers.set(kind, answer);
  }

  /** Resolves when messages of that kind have come for so many operations. */
  counts(kind: string, operations: number): Promise<void> {
    return new Promise((resolve) => {
      this.#counting = { kind, left: operations, resolve };
    });
  }

  close(): void {
    this.#socket.close();
  }

  #receive(message: string): void {
    const [kind = '', ...texts] = JSON.parse(message) as string[];
    this.#answers.get(kind)?.(texts);
    if (this.#counting?.kind !== kind) return;
    this.#counting.left -= kind === 'stored' ? Number(texts[0]) : texts.length;
    if (this.#counting.left <= 0) this.#counting.resolve();
  }
}
