/**
 * A separate process: an account that asks for as much as it can, of every kind at once, until it gets the order to stop. Each
 * kind of request has an address of its own, so that the limit of an address for one kind does not spare the platform
 * the others.
 *
 * On a machine with two cores this process shares them with the stack. So it has the lowest priority, and sends each
 * kind at a fixed rate, which is above every limit of an account; the rest of its requests are refusals. It says how
 * much processor time it took itself.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Agent, type ClientRequest, createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { constants, setPriority } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { LIMIT } from '../../protocol/limits.ts';
import type { Login } from '../../tools/admin-client.ts';
import { signedPublish } from '../../tools/partner.ts';
import type { SeededKey } from '../../tools/seed.ts';

export type HostileKind = 'webhooks' | 'mails' | 'logins' | 'streams' | 'bodies' | 'commands';

export type HostileOrder =
  | {
      kind: 'run';
      url: string;
      login: Login;
      organization: { id: string; slug: string };
      key: SeededKey;
      plantId: string;
      /** The e-mail address of a person of another organization, at which it guesses passwords. */
      victim: string;
    }
  | { kind: 'stop' };

type Answers = Record<number, number>;

/** `answers`: how many there were of each status; a request without an answer counts as 0. */
export interface HostileWord {
  kind: 'stopped';
  answers: Record<HostileKind, Answers>;
  /** Messages that its receivers of webhooks got. */
  posts: number;
  seconds: number;
  /** Processor time of this process. */
  cpuMs: number;
}

/** Per kind: requests a second, how many of them are under way at most, and the address that they come from. */
const LOADS: Record<HostileKind, { perSecond: number; atOnce: number; address: string }> = {
  // Of these the platform takes 30 a minute, and 600 changes of an organization.
  webhooks: { perSecond: 18, atOnce: 8, address: '198.51.100.1' },
  mails: { perSecond: 18, atOnce: 8, address: '198.51.100.2' },
  logins: { perSecond: 18, atOnce: 8, address: '198.51.100.3' },
  streams: { perSecond: 18, atOnce: 16, address: '198.51.100.4' },
  bodies: { perSecond: 18, atOnce: 16, address: '198.51.100.5' },
  // As many as a key may send over HTTPS: each makes events for all its webhooks.
  commands: { perSecond: 10, atOnce: 8, address: '198.51.100.6' },
};
const ANSWER_MS = 30_000;
const LONGEST_HOLD_MS = 5_000;
const SLOW_BODY_MS = 10_000;
const SLOW_RECEIVER_MS = 5_000;
/** It does not wait for what is under way at the end. */
const STOP_MS = 5_000;
const JSON_TYPE = { 'content-type': 'application/json' };
/** A body of maximum size with as many small values as possible, because these take the longest to parse. */
const LARGE_BODY = `[${'0,'.repeat((LIMIT.restBodyBytes - 4) / 2)}0]`;
const TOO_LARGE_BODY = 'x'.repeat(5_000_000);

interface Sent {
  method: string;
  path: string;
  headers?: Record<string, string>;
  body?: string;
  /** How long it keeps the connection open: it sends the body byte by byte, or reads a stream. */
  holdMs?: number;
}

interface Got {
  status: number;
  text: string;
}

type Target = Extract<HostileOrder, { kind: 'run' }>;

class HostileAccount {
  readonly #target: Target;
  readonly #over = new AbortController();
  readonly #answers: Record<HostileKind, Answers> = {
    webhooks: {},
    mails: {},
    logins: {},
    streams: {},
    bodies: {},
    commands: {},
  };
  readonly #webhooks: string[] = [];
  readonly #agent = new Agent({ keepAlive: true });
  #receiverUrl = '';
  #posts = 0;
  #token = '';
  #turns = 0;

  constructor(target: Target) {
    this.#target = target;
  }

  stop(): void {
    this.#over.abort();
  }

  async run(): Promise<HostileWord> {
    const startedAt = performance.now();
    const { user, system } = process.cpuUsage();
    const receiver = await this.#receive();
    await this.#logIn();
    const kinds = Object.keys(LOADS) as HostileKind[];
    const all = Promise.all(kinds.map((kind) => this.#load(kind)));
    await once(this.#over.signal, 'abort');
    const seconds = (performance.now() - startedAt) / 1_000;
    await Promise.race([all, pause(STOP_MS)]);
    receiver.closeAllConnections();
    receiver.close();
    this.#agent.destroy();
    const used = process.cpuUsage({ user, system });
    const cpuMs = (used.user + used.system) / 1_000;
    return { kind: 'stopped', answers: this.#answers, posts: this.#posts, seconds, cpuMs };
  }

  /** One kind of requests, at its rate. */
  async #load(kind: HostileKind): Promise<void> {
    const { perSecond, atOnce } = LOADS[kind];
    let nextAt = performance.now();
    const worker = async () => {
      while (!this.#over.signal.aborted) {
        nextAt = Math.max(nextAt + 1_000 / perSecond, performance.now());
        await pause(Math.max(0, nextAt - performance.now()));
        const { status, text } = await this.#send(kind, this.#next(kind));
        const answers = this.#answers[kind];
        answers[status] = (answers[status] ?? 0) + 1;
        this.#learn(kind, status, text);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
  }

  #next(kind: HostileKind): Sent {
    this.#turns += 1;
    switch (kind) {
      case 'webhooks':
        return this.#webhookRequest();
      case 'mails':
        return this.#mailRequest();
      case 'logins':
        return this.#loginRequest();
      case 'streams':
        return this.#streamRequest();
      case 'bodies':
        return this.#bodyRequest();
      case 'commands':
        return this.#commandRequest();
    }
  }

  /** Creates as many webhooks as a key may have, tests them, and deletes some of them again. */
  #webhookRequest(): Sent {
    const headers = this.#member();
    const ids = this.#webhooks;
    const id = ids[this.#turns % Math.max(1, ids.length)];
    const chance = Math.random();
    if (id === undefined || (ids.length < LIMIT.webhooksPerKey && chance < 0.3)) {
      const pace = this.#turns % 4 === 0 ? 'slow' : 'fast';
      const url = `${this.#receiverUrl}/${pace}/${randomUUID()}`;
      const body = { keyId: this.#target.key.id, url, types: ['ack', 'execution', 'alarm'] };
      return { method: 'POST', path: '/partner/webhooks', headers, body: JSON.stringify(body) };
    }
    const path = `/partner/webhooks/${id}`;
    if (chance > 0.98) {
      ids.splice(ids.indexOf(id), 1);
      return { method: 'DELETE', path, headers };
    }
    const verb = chance > 0.9 ? 'enable' : 'test';
    return { method: 'POST', path: `${path}/${verb}`, headers };
  }

  /** Registers and invites people, and asks for resets of passwords, at very many addresses. */
  #mailRequest(): Sent {
    const email = `${randomUUID()}@mail.example`;
    const turn = this.#turns % 6;
    if (turn === 0) {
      const body = JSON.stringify({ email, password: randomUUID(), name: 'Jana' });
      return { method: 'POST', path: '/auth/register', headers: JSON_TYPE, body };
    }
    if (turn < 3) {
      const known = turn === 1 ? this.#target.login.email : email;
      const body = JSON.stringify({ email: known });
      return { method: 'POST', path: '/auth/password-reset', headers: JSON_TYPE, body };
    }
    const path = `/organizations/${this.#target.organization.id}/invitations`;
    const body = JSON.stringify({ email, role: 'VIEWER' });
    return { method: 'POST', path, headers: this.#member(), body };
  }

  /** Guesses at an account of its own invention and at the victim's, and logs in itself. */
  #loginRequest(): Sent {
    const { login, victim } = this.#target;
    const wrong = { email: `${randomUUID()}@mail.example`, password: 'a wrong password' };
    const logins = [login, wrong, wrong, { ...wrong, email: victim }];
    const body = JSON.stringify(logins[this.#turns % logins.length]);
    return { method: 'POST', path: '/auth/login', headers: JSON_TYPE, body };
  }

  #streamRequest(): Sent {
    const holdMs = Math.random() * LONGEST_HOLD_MS;
    if (this.#turns % 3 === 0)
      return {
        method: 'GET',
        path: '/vcp/events/stream?after=0',
        headers: { 'x-api-key': this.#target.key.key },
        holdMs,
      };
    const path = `/plants/${this.#target.plantId}/stream?after=0`;
    return { method: 'GET', path, headers: this.#member(), holdMs };
  }

  /** Large and slow bodies, to a public route, without a credential, and with one. */
  #bodyRequest(): Sent {
    const { key, plantId } = this.#target;
    const places = [
      { path: '/auth/login', headers: JSON_TYPE },
      { path: '/partner/webhooks', headers: JSON_TYPE },
      { path: '/plants', headers: this.#member() },
      { path: `/vcp/sites/${plantId}/commands`, headers: { ...JSON_TYPE, 'x-api-key': key.key } },
    ];
    const place = places[this.#turns % places.length] ?? { path: '/auth/login', headers: JSON_TYPE };
    const bodies = [
      { body: LARGE_BODY },
      { body: '['.repeat(2_000), holdMs: SLOW_BODY_MS },
      { body: TOO_LARGE_BODY },
    ];
    const chosen = bodies[Math.floor(Math.random() * bodies.length)] ?? { body: LARGE_BODY };
    return { method: 'POST', ...place, ...chosen };
  }

  #commandRequest(): Sent {
    const { key, organization, plantId } = this.#target;
    const command = {
      deviceId: 'BESS-1',
      assetType: 'BESS',
      command: 'BESS_CHARGE',
      params: { powerKw: 1 },
    };
    const payload = { commands: [command] };
    const { routingKey, body } = signedPublish(organization.slug, key.signingKey, 'device', plantId, payload);
    return {
      method: 'POST',
      path: `/vcp/sites/${plantId}/commands`,
      headers: { ...JSON_TYPE, 'x-api-key': key.key },
      body: JSON.stringify({ routingKey, message: body }),
    };
  }

  #learn(kind: HostileKind, status: number, text: string): void {
    // A login above the sessions of a user ends the oldest one, so the newest token is the one to use.
    if (kind === 'logins' && status === 200) this.#token = JSON.parse(text).accessToken;
    if (kind === 'webhooks' && status === 201) this.#webhooks.push(JSON.parse(text).webhook?.id ?? '');
  }

  async #logIn(): Promise<void> {
    const body = JSON.stringify(this.#target.login);
    const sent = { method: 'POST', path: '/auth/login', headers: JSON_TYPE, body };
    const { status, text } = await this.#send('logins', sent);
    this.#learn('logins', status, text);
    if (this.#token === '') throw new Error(`the hostile account cannot log in: ${status} ${text}`);
  }

  #member(): Record<string, string> {
    const authorization = `Bearer ${this.#token}`;
    return { ...JSON_TYPE, authorization, 'x-org-id': this.#target.organization.id };
  }

  async #send(kind: HostileKind, sent: Sent): Promise<Got> {
    const { method, path, headers = {}, body = '' } = sent;
    const { address } = LOADS[kind];
    const asked = request(`${this.#target.url}/api/v1${path}`, {
      agent: sent.holdMs === undefined ? this.#agent : false,
      method,
      headers: { ...headers, 'content-length': Buffer.byteLength(body), 'cf-connecting-ip': address },
      signal: AbortSignal.any([this.#over.signal, AbortSignal.timeout(ANSWER_MS)]),
    });
    asked.on('error', () => {});
    const answered = once(asked, 'response') as Promise<[IncomingMessage]>;
    try {
      if (body !== '' && sent.holdMs !== undefined) void drip(asked, body, sent.holdMs);
      else asked.end(body);
      const [answer] = await answered;
      if (method === 'GET' && answer.statusCode === 200) {
        answer.on('error', () => {}).resume();
        await pause(sent.holdMs, undefined, { signal: this.#over.signal });
        return { status: 200, text: '' };
      }
      const chunks: Buffer[] = [];
      for await (const chunk of answer) chunks.push(chunk as Buffer);
      return { status: answer.statusCode ?? 0, text: Buffer.concat(chunks).toString('utf8') };
    } catch {
      return { status: 0, text: '' };
    } finally {
      if (sent.holdMs !== undefined) asked.destroy();
    }
  }

  /** Receivers of webhooks that consent, every fourth of them slow. */
  async #receive() {
    const server = createServer(async (asked, answer) => {
      answer.on('error', () => {});
      try {
        const chunks: Buffer[] = [];
        for await (const chunk of asked) chunks.push(chunk as Buffer);
        this.#posts += 1;
        const { type, data } = JSON.parse(Buffer.concat(chunks).toString('utf8'));
        const isSlow = asked.url?.startsWith('/slow') && type !== 'webhook.verify';
        if (isSlow) await pause(SLOW_RECEIVER_MS, undefined, { ref: false });
        answer.end(type === 'webhook.verify' ? data?.challenge : undefined);
      } catch {
        answer.destroy();
      }
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    this.#receiverUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return server;
  }
}

/** Sends the body in ten parts, and never its last byte. */
async function drip(asked: ClientRequest, body: string, ms: number): Promise<void> {
  const part = Math.floor(body.length / 11);
  for (let sent = 0; sent < 10 && !asked.destroyed; sent++) {
    asked.write(body.slice(sent * part, (sent + 1) * part));
    await pause(ms / 10);
  }
  asked.destroy();
}

let account: HostileAccount | undefined;

async function obey(order: HostileOrder): Promise<void> {
  if (order.kind === 'stop') {
    account?.stop();
    return;
  }
  account = new HostileAccount(order);
  process.send?.(await account.run());
}

if (process.send) {
  setPriority(constants.priority.PRIORITY_LOW);
  process.on('message', (order: HostileOrder) => void obey(order));
  process.on('disconnect', () => process.exit(0));
}
