/**
 * The time of an answer does not reveal who has an account [C-11.3], [C-11.4]: each route is asked about a registered and
 * an unknown address in turn, one request at a time, and the medians are compared. Each request comes from a network of
 * its own, because one network may not ask so often.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Operator } from '../../tools/admin-client.ts';
import { percentile } from '../../tools/bench/figures.ts';
import { edgeSecrets, makeSecrets } from '../../tools/credentials.ts';
import { type Edge, startEdge } from '../../tools/edge.ts';

const PEOPLE = 60;
/** Requests of a route that are not measured. */
const WARM_UP = 20;
/** What follows an answer, such as a mail, must not slow down the next request. */
const QUIET_MS = 40;
const PASSWORD = 'correct horse battery staple';
/** The medians of one run differ by up to 4 % by chance. */
const RATIO = { least: 0.9, most: 1.1 };

interface Answer {
  status: number;
  text: string;
  ms: number;
}

const known = Array.from({ length: PEOPLE }, (_none, index) => `known-${index}@example.org`);
const unknown = Array.from({ length: PEOPLE }, (_none, index) => `other-${index}@example.org`);

describe('the time of an answer', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-account-timing-'));
  const secrets = makeSecrets('acme');
  let edge: Edge;
  let organizationId: string;
  let bearer: string;
  const sessions: string[] = [];
  let asked = 0;

  const ask = async (method: string, path: string, body: object, token?: string): Promise<Answer> => {
    const address = `100.${64 + (asked >> 8)}.${asked++ & 255}.7`;
    const began = performance.now();
    const response = await fetch(`${edge.url}/api/v1${path}`, {
      method,
      headers: {
        'content-type': 'application/json',
        'cf-connecting-ip': address,
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    return { status: response.status, text, ms: performance.now() - began };
  };

  const logIn = async (login: { email: string; password: string }): Promise<string> => {
    const { status, text } = await ask('POST', '/auth/login', login);
    expect(status, text).toBe(200);
    return (JSON.parse(text) as { accessToken: string }).accessToken;
  };

  beforeAll(async () => {
    edge = await startEdge({
      dataFolder: join(folder, 'edge'),
      port: 0,
      secrets: edgeSecrets(secrets),
      mail: { folder },
      bindings: {
        CLIENT_ADDRESS: 'platform',
        ADDRESS_RATE_PER_MINUTE: '1000000',
        PUBLIC_URL: 'https://edge.example.com',
      },
    });
    const operator = new Operator(edge.url, secrets.operatorToken);
    const { admin } = secrets;
    await operator.createOrganization({ name: 'Acme', slug: 'acme' }, { ...admin, name: 'Admin' });
    bearer = await logIn(admin);
    const { data } = await operator.call<{ data: { id: string }[] }>('GET', '/organizations?slug=acme');
    organizationId = data[0]?.id ?? '';
    await operator.call('PATCH', `/organizations/${organizationId}/limits`, { invitationsPerDay: 10_000 });
    for (const [index, email] of known.entries()) {
      const slug = `org-${index}`;
      await operator.createOrganization({ name: slug, slug }, { email, password: PASSWORD, name: 'Person' });
      sessions.push(await logIn({ email, password: PASSWORD }));
    }
  }, 300_000);

  afterAll(async () => {
    await edge?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const measure = async (
    expected: number,
    request: (email: string, index: number) => Promise<Answer>,
    { isOnce = false } = {},
  ): Promise<number> => {
    const times = { known: [] as number[], unknown: [] as number[] };
    if (!isOnce)
      for (let count = 0; count < WARM_UP; count++) await request(`warm-up-${count}@example.org`, 0);
    for (let index = 0; index < PEOPLE; index++) {
      // Each of the two is first as often as the other.
      const order = index % 2 === 0 ? (['known', 'unknown'] as const) : (['unknown', 'known'] as const);
      for (const kind of isOnce ? order.slice(0, 1) : order) {
        // Who may ask only once asks for the address of another person, or for a free one.
        const taken = known[isOnce ? (index + 1) % PEOPLE : index];
        const answer = await request((kind === 'known' ? taken : unknown[index]) ?? '', index);
        expect(answer.status, answer.text).toBe(expected);
        times[kind].push(answer.ms);
        await pause(QUIET_MS);
      }
    }
    const ratio = percentile(times.known, 0.5) / percentile(times.unknown, 0.5);
    console.log(`registered / unknown, p50: ${ratio.toFixed(2)}`);
    return ratio;
  };

  const isAlike = (ratio: number) => {
    expect(ratio).toBeGreaterThan(RATIO.least);
    expect(ratio).toBeLessThan(RATIO.most);
  };

  it('does not reveal who has an account: a login with a wrong password', async () => {
    isAlike(await measure(401, (email) => ask('POST', '/auth/login', { email, password: 'wrong password' })));
  }, 300_000);

  it('does not reveal who has an account: a request for a new password', async () => {
    isAlike(await measure(202, (email) => ask('POST', '/auth/password-reset', { email })));
  }, 300_000);

  it.each(['invitations', 'members'])(
    'does not reveal who has an account: a new entry in %s',
    async (list) => {
      const path = () => `/organizations/${organizationId}/${list}`;
      isAlike(await measure(201, (email) => ask('POST', path(), { email, role: 'VIEWER' }, bearer)));
    },
    300_000,
  );

  it('does not reveal who has an account: a change of the address', async () => {
    const change = (newEmail: string, index: number) =>
      ask('POST', '/auth/email-change', { newEmail, currentPassword: PASSWORD }, sessions[index]);
    isAlike(await measure(202, change, { isOnce: true }));
  }, 300_000);
});
