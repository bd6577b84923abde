/**
 * Whether the time of an answer reveals who has an account [C-11.3], [C-11.4]: each route is asked about a registered
 * and an unknown address in turn, as one client one request at a time, and the medians are compared.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Operator } from '../admin-client.ts';
import { edgeSecrets, makeSecrets } from '../credentials.ts';
import { startEdge } from '../edge.ts';
import { percentile, report } from './figures.ts';

const PEOPLE = 60;
/** Requests of a route that are not measured. */
const WARM_UP = 20;
const QUIET_MS = 40;
const PASSWORD = 'correct horse battery staple';
/** The address limit counts a refused login as five requests. */
const RATE = '1000000';

interface Answer {
  status: number;
  text: string;
  ms: number;
}

type Ask = (method: string, path: string, body: object, bearer?: string) => Promise<Answer>;

export async function benchOracle(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-oracle-'));
  const secrets = makeSecrets('acme');
  const edge = await startEdge({
    dataFolder: join(folder, 'edge'),
    port: 0,
    secrets: edgeSecrets(secrets),
    mail: { folder },
    bindings: { ADDRESS_RATE_PER_MINUTE: RATE, PUBLIC_URL: 'https://edge.example.com' },
  });
  try {
    report(
      'oracle',
      `${PEOPLE} registered and ${PEOPLE} unknown addresses in turn`,
      await figures(edge.url, secrets),
    );
  } finally {
    await edge.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function figures(url: string, { admin, operatorToken }: ReturnType<typeof makeSecrets>) {
  const ask: Ask = async (method, path, body, bearer) => {
    const began = performance.now();
    const response = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: {
        'content-type': 'application/json',
        ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
      },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    return { status: response.status, text, ms: performance.now() - began };
  };
  const operator = new Operator(url, operatorToken);
  await operator.createOrganization({ name: 'Acme', slug: 'acme' }, { ...admin, name: 'Admin' });
  const bearer = await logIn(ask, admin);
  const { data } = await operator.call<{ data: { id: string }[] }>('GET', '/organizations?slug=acme');
  const id = data[0]?.id ?? '';
  await operator.call('PATCH', `/organizations/${id}/limits`, { invitationsPerDay: 10_000 });

  const known = Array.from({ length: PEOPLE }, (_none, index) => `known-${index}@example.org`);
  const unknown = Array.from({ length: PEOPLE }, (_none, index) => `other-${index}@example.org`);
  const sessions: string[] = [];
  for (const [index, email] of known.entries()) {
    const slug = `org-${index}`;
    await operator.createOrganization({ name: slug, slug }, { email, password: PASSWORD, name: 'Person' });
    sessions.push(await logIn(ask, { email, password: PASSWORD }));
  }

  const routes: [name: string, expected: number, (email: string, index: number) => Promise<Answer>][] = [
    [
      'login with a wrong password',
      401,
      (email) => ask('POST', '/auth/login', { email, password: 'wrong password' }),
    ],
    ['password reset', 202, (email) => ask('POST', '/auth/password-reset', { email })],
    [
      'invitation',
      201,
      (email) => ask('POST', `/organizations/${id}/invitations`, { email, role: 'VIEWER' }, bearer),
    ],
    [
      'member',
      201,
      (email) => ask('POST', `/organizations/${id}/members`, { email, role: 'VIEWER' }, bearer),
    ],
    [
      'e-mail change',
      202,
      // Each user requests a change only once, to an address that is taken or free, because a second change
      // within a minute is refused.
      (newEmail, index) =>
        ask('POST', '/auth/email-change', { newEmail, currentPassword: PASSWORD }, sessions[index]),
    ],
  ];
  const rows = [];
  for (const [name, expected, request] of routes) {
    const times = { known: [] as number[], unknown: [] as number[] };
    if (name !== 'e-mail change')
      for (let count = 0; count < WARM_UP; count++) await request(`warm-up-${count}@example.org`, 0);
    for (let index = 0; index < PEOPLE; index++) {
      const isChange = name === 'e-mail change';
      // The two addresses are asked in turn, and each is first as often as the other.
      const order = index % 2 === 0 ? (['known', 'unknown'] as const) : (['unknown', 'known'] as const);
      for (const kind of isChange ? order.slice(0, 1) : order) {
        const list = kind === 'known' ? known : unknown;
        const email =
          isChange && kind === 'known' ? (known[(index + 1) % PEOPLE] ?? '') : (list[index] ?? '');
        const answer = await request(email, index);
        if (answer.status !== expected) throw new Error(`${name} answered ${answer.status}: ${answer.text}`);
        times[kind].push(answer.ms);
        // Work that the edge does after an answer must not slow down the next request.
        await pause(QUIET_MS);
      }
    }
    const [of, none] = [percentile(times.known, 0.5), percentile(times.unknown, 0.5)];
    rows.push({ name: `${name}: registered, p50`, value: of, unit: 'ms' });
    rows.push({ name: `${name}: registered / unknown`, value: of / none, unit: '×', target: '0.95 to 1.05' });
  }
  return rows;
}

async function logIn(ask: Ask, { email, password }: { email: string; password: string }): Promise<string> {
  const { status, text } = await ask('POST', '/auth/login', { email, password });
  if (status !== 200) throw new Error(`login answered ${status}: ${text}`);
  return (JSON.parse(text) as { accessToken: string }).accessToken;
}
