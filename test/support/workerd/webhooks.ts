/** An ORG_ADMIN who manages webhooks over REST, and a receiver that stands for the network. */

import { env } from 'cloudflare:workers';
import { createHmac } from 'node:crypto';
import { expect, vi } from 'vitest';
import type { EventKind } from '../../../protocol/routing-keys.ts';
import type { WebhookAttempt, WebhookRecord } from '../../../protocol/webhook.ts';
import type { AuditEntry } from '../../../registry/entries.ts';
import { createWebhook } from '../../../registry/webhooks.ts';
import { newSecret, sealSecret } from '../../../worker/lifecycle/webhook.ts';
import { bodyOf, type Call, type KeyClient } from './client.ts';
import { auditOf, done, markDelivered } from './commits.ts';
import { countOf } from './d1.ts';
import { outboxEvents } from './outbox-events.ts';
import type { Person } from './people.ts';
import { consentOf } from './post-receiver.ts';
import type { Team } from './team.ts';
import { test } from './worker-test.ts';
import { type Organization, randomHex, vhostOf } from './world.ts';

export const WEBHOOKS = '/partner/webhooks';

/** A webhook with the progress of its delivery. */
export type WebhookItem = WebhookRecord & { delivery: Record<string, unknown> | null };

/** A request that the receiver has got. */
export interface Received {
  path: string;
  headers: Headers;
  text: string;
  type: string;
  id: string;
}

/** Receives the requests to one host, which no other test uses; requests to other hosts fail. */
export class Receiver {
  readonly host = `${randomHex(6)}.example.com`;
  readonly url = `https://${this.host}/hook`;
  readonly received: Received[] = [];
  answer: (message: Received) => Response | Promise<Response> = () => new Response('thanks');
  /** A 2xx to `webhook.verify` has the challenge as its body [C-15.3]. False: the body is the one of `answer`. */
  isConsenting = true;

  constructor() {
    vi.spyOn(globalThis, 'fetch').mockImplementation(async (input, init) => {
      const { hostname, pathname } = new URL(String(input));
      if (hostname !== this.host) throw new Error(`no test receives messages for ${hostname}`);
      const headers = new Headers(init?.headers);
      const text = String(init?.body);
      const { type } = JSON.parse(text) as { type: string };
      const message = { path: pathname, headers, text, type, id: headers.get('webhook-id') ?? '' };
      this.received.push(message);
      const answer = await this.answer(message);
      return this.isConsenting ? consentOf(text, answer) : answer;
    });
  }

  /** The requests with events. */
  get events(): Received[] {
    return this.received.filter(({ type }) => !type.startsWith('webhook.'));
  }

  typesOf(path = '/hook'): string[] {
    return this.received.filter((one) => one.path === path).map(({ type }) => type);
  }

  /** Waits until this many events have come, and returns their ids in order. */
  async ids(count: number): Promise<string[]> {
    await vi.waitFor(() => expect(this.events).toHaveLength(count));
    return this.events.map(({ id }) => id);
  }
}

/** Whether a message has the signature that this secret makes. */
export function isSignedWith(secret: string, { headers, text, id }: Received): boolean {
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
  const signed = `${id}.${headers.get('webhook-timestamp')}.${text}`;
  const digest = createHmac('sha256', key).update(signed).digest();
  const signature = `v1,${btoa(String.fromCharCode(...digest))}`;
  return (headers.get('webhook-signature') ?? '').split(' ').includes(signature);
}

export class WebhookAdmin {
  readonly team: Team;
  readonly key: KeyClient;
  readonly #url: string;
  #made = 0;
  /** The sequence of the last event of each site. */
  readonly #sequences = new Map<string, number>();

  constructor(team: Team, key: KeyClient, url: string) {
    this.team = team;
    this.key = key;
    this.#url = url;
  }

  /** A request about the webhooks of the organization; `path` follows that of their list. */
  ask(path = '', options: Call = {}, by: Person = this.team.orgAdmin): Promise<Response> {
    return by.call(`${WEBHOOKS}${path}`, { org: this.team.id, ...options });
  }

  /** A URL of the receiver that no other webhook has, because a key may have one webhook of a URL [C-15.3]. */
  newUrl(): string {
    this.#made += 1;
    return this.#made === 1 ? this.#url : `${this.#url}?n=${this.#made}`;
  }

  /** `POST` with a body of which some fields are replaced. */
  post(fields: object = {}): Promise<Response> {
    const body = {
      url: 'url' in fields ? fields.url : this.newUrl(),
      keyId: this.key.id,
      types: ['ack'],
      ...fields,
    };
    return this.ask('', { method: 'POST', body });
  }

  async make(fields: object = {}): Promise<{ webhook: WebhookRecord; secret: string }> {
    return await bodyOf(await this.post(fields), 201);
  }

  /** The id of a new webhook whose receiver has agreed. */
  async makeEnabled(fields: object = {}): Promise<string> {
    const { id } = (await this.make(fields)).webhook;
    await this.until(id, 'ENABLED');
    return id;
  }

  async read(id: string): Promise<WebhookItem> {
    return await bodyOf(await this.ask(`/${id}`), 200);
  }

  async list(query = ''): Promise<WebhookRecord[]> {
    return (await bodyOf<{ data: WebhookRecord[] }>(await this.ask(query), 200)).data;
  }

  patch(id: string, body: unknown): Promise<Response> {
    return this.ask(`/${id}`, { method: 'PATCH', body });
  }

  /** `POST /{id}/{action}`. */
  act(id: string, action: string, body?: unknown): Promise<Response> {
    return this.ask(`/${id}/${action}`, { method: 'POST', body });
  }

  async attempts(id: string): Promise<WebhookAttempt[]> {
    return (await bodyOf<{ attempts: WebhookAttempt[] }>(await this.ask(`/${id}/attempts`), 200)).attempts;
  }

  /** Waits until the registry has this status of the webhook. */
  async until(id: string, status: WebhookRecord['status']): Promise<void> {
    await vi.waitFor(async () => {
      const found = (await this.list('?limit=100')).find((one) => one.id === id);
      expect(found?.status).toBe(status);
    });
  }

  /** Has a site send an event to the key, and returns the id of its message. */
  async send(kind: EventKind = 'ack', siteId = NO_SITE, atMs = Date.now()): Promise<string> {
    const sequence = (this.#sequences.get(siteId) ?? 0) + 1;
    this.#sequences.set(siteId, sequence);
    const [event] = outboxEvents(sequence, 1, { kind });
    if (!event) throw new Error('no event');
    await vhostOf(this.key.id).receive(siteId, [{ ...event, atMs }]);
    return event.messageId;
  }

  count(): Promise<number> {
    return countOf('webhooks', 'organization_id = ?', this.team.id);
  }
}

const NO_SITE = '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10';

/** `hooks`: the webhooks of `ownTeam`, for a key of it, whose messages `receiver` gets. */
export const webhookTest = test
  .extend('receiver', () => new Receiver())
  .extend('hooks', async ({ ownTeam, receiver }) => {
    return new WebhookAdmin(ownTeam, await ownTeam.newKey(), receiver.url);
  });

/** Adds a webhook to the registry, without notifying the key's Vhost, and returns its id. */
export async function addWebhook(organization: Organization, keyId: string): Promise<string> {
  const request = { url: 'https://hooks.example.com/', keyId, types: ['ack' as const], siteIds: null };
  const audit = (id: string): AuditEntry => auditOf(organization, 'webhook.created', 'WEBHOOK')(id);
  const seal = (id: string) => sealSecret(env, id, newSecret());
  const given = { ...request, description: '' };
  const { row, change } = done(await createWebhook(env.DB, organization.id, given, seal, audit, Date.now()));
  await markDelivered(change);
  return row.id;
}
