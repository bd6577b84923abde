/** A deployment without users: the admin tool creates the first tenant, and the cron job runs. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { suiteStack } from '#support/suite-stack.ts';
import type { OrganizationRecord } from '../../protocol/organization.ts';
import { AdminClient } from '../../tools/admin-client.ts';

const TOOL = join(import.meta.dirname, '..', '..', 'tools', 'admin.ts');
const HOUR_MS = 3_600_000;

const stack = suiteStack();

/** The tool's output and exit code. */
async function admin(...given: string[]): Promise<{ code: number | null; said: string }> {
  const env = { ...process.env, SITEWIRE_OPERATOR_TOKEN: stack.credentials.operatorToken };
  const child = spawn(process.execPath, [TOOL, ...given], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (part: Buffer) => (said += part));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, said };
}

/** An exit with that code and a text in the output. */
function exit(code: number, part: string) {
  return { code, said: expect.stringContaining(part) };
}

function create(name: string, email: string, ...more: string[]) {
  return admin('create-organization', '--name', name, '--email', email, '--url', stack.edge.url, ...more);
}

describe('npm run sitewire -- admin create-organization', () => {
  it('creates an organization whose admin can log in with the printed credentials', async () => {
    const { code, said } = await create('Žlutá Energie, s.r.o.', 'Jana@example.com');
    expect([code, said]).toEqual([0, expect.stringContaining('zluta-energie-s-r-o')]);
    const password = /password +(\S+)/.exec(said)?.[1] ?? '';
    const client = await AdminClient.enter(stack.edge.url, { email: 'jana@example.com', password });
    expect(await client.list<OrganizationRecord>('/organizations')).toMatchObject([
      { name: 'Žlutá Energie, s.r.o.', slug: 'zluta-energie-s-r-o', role: 'ORG_ADMIN' },
    ]);
  });

  it('exits with 1 and reports a registered e-mail address or a slug that is taken', async () => {
    await create('One', 'one@example.com');
    expect(await create('Two', 'one@example.com')).toEqual(exit(1, 'registered'));
    const taken = await create('Two', 'two@example.com', '--slug', 'one');
    expect(taken).toEqual(exit(1, 'slug "one" is already taken'));
  });

  it.each([[[]], [['create-organization']], [['remove-organization', '--name', 'x', '--email', 'y']]])(
    'prints its usage for %j',
    async (given) => {
      expect(await admin(...given)).toEqual(exit(2, '--email <e-mail>'));
    },
  );
});

describe('npm run sitewire -- admin invite', () => {
  it('invites a person, and prints the link while no mail is sent [C-14.1]', async () => {
    const { id } = stack.credentials.organization;
    const invite = (...more: string[]) =>
      admin('invite', '--organization', id, '--url', stack.edge.url, ...more);
    const { code, said } = await invite('--email', 'petr@example.com', '--role', 'VIEWER');
    expect([code, said]).toEqual([0, expect.stringContaining('petr@example.com is invited as VIEWER')]);
    const token = /#token=([\w-]{43})/.exec(said)?.[1];
    const verified = await fetch(`${stack.edge.url}/api/v1/invitations/verify`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token }),
    });
    expect(await verified.json()).toMatchObject({ email: 'petr@example.com', role: 'VIEWER' });
    expect(await invite('--email', 'petr@example.com', '--role', 'KING')).toEqual(exit(1, 'role'));
    expect((await invite()).code).toBe(2);
  });
});

describe('npm run sitewire -- admin users release', () => {
  it('gives an address back to its owner, who can register then [C-15.6]', async () => {
    const email = 'owner@example.com';
    const register = async (name: string) => {
      const response = await fetch(`${stack.edge.url}/api/v1/auth/register`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ email, password: 'correct horse battery', name }),
      });
      return response.status;
    };
    const release = (...given: string[]) => admin('users', 'release', ...given, '--url', stack.edge.url);
    expect(await register('Stranger')).toBe(201);
    expect(await register('Owner')).toBe(409);
    const { code, said } = await release('Owner@example.com');
    expect([code, said]).toEqual([0, expect.stringMatching(/owner@example\.com is free again/i)]);
    expect(await register('Owner')).toBe(201);
    expect(await release('nobody@example.com')).toEqual(exit(1, 'nobody@example.com'));
  });

  it.each([[['users']], [['users', 'release']], [['users', 'release', 'a@example.com', 'b@example.com']]])(
    'prints its usage for %j [C-15.6]',
    async (given) => {
      expect(await admin(...given, '--url', stack.edge.url)).toEqual(exit(2, 'users release'));
    },
  );
});

describe('npm run sitewire -- admin limits', () => {
  it('shows the ceilings of an organization, and sets them [C-14.2]', async () => {
    const { id } = stack.credentials.organization;
    const limits = (...more: string[]) =>
      admin('limits', '--organization', id, '--url', stack.edge.url, ...more);
    expect(await limits()).toEqual({ code: 0, said: expect.stringMatching(/^plants +10000$/m) });
    expect((await limits('--set', 'plants=3')).said).toMatch(/^plants +3$/m);
    expect((await limits('--set', 'plants=default')).said).toMatch(/^plants +10000$/m);
    expect((await limits('--set', 'plants')).code).toBe(2);
    expect(await limits('--set', 'members=1')).toEqual(exit(1, 'members'));
  });
});

describe('npm run sitewire -- admin', () => {
  const run = (...given: string[]) => admin(...given, '--url', stack.edge.url);
  let id: string;

  beforeAll(async () => {
    await create('Leaving', 'leaving@example.com');
    const { said } = await run('organizations', '--slug', 'leaving');
    id = /[0-9a-f-]{36}/.exec(said)?.[0] ?? '';
    expect(said).toMatch(new RegExp(`^${id} +ACTIVE +leaving +Leaving$`, 'm'));
  });

  it('lists every organization', async () => {
    const { said } = await run('organizations');
    expect(said.trim().split('\n').length).toBeGreaterThan(1);
    expect(said).toContain(stack.credentials.organization.slug);
  });

  it('starts a support session whose token reads, and does not write', async () => {
    expect((await run('support', '--organization', id)).code).toBe(2);
    const { code, said } = await run('support', '--organization', id, '--reason', 'a test');
    expect(code).toBe(0);
    const [token] = /support_[\w-]{43}/.exec(said) ?? [''];
    const call = (init: RequestInit) =>
      fetch(`${stack.edge.url}/api/v1/plants`, {
        ...init,
        headers: {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
        },
      });
    expect((await call({})).status).toBe(200);
    const body = JSON.stringify({ name: 'x', timezone: 'UTC' });
    expect((await call({ method: 'POST', body })).status).toBe(403);
  });

  it('suspends and reactivates an organization, and deletes it only if suspended and confirmed with its slug', async () => {
    const reason = ['--reason', 'a test'];
    expect(await run('suspend-organization', '--organization', id, ...reason)).toEqual({
      code: 0,
      said: 'leaving is SUSPENDED.\n',
    });
    expect((await run('reactivate-organization', '--organization', id)).said).toBe('leaving is ACTIVE.\n');
    const remove = (confirm: string) =>
      run('delete-organization', '--organization', id, '--confirm', confirm);
    expect(await remove('other')).toEqual(exit(1, 'nothing was deleted'));
    expect(await remove('leaving')).toEqual(exit(1, 'ACTIVE'));
    await run('suspend-organization', '--organization', id, ...reason);
    expect((await remove('leaving')).said).toContain('leaving is DELETED.');
    for (let round = 0; round < 2; round++) await stack.edge.tick();
    expect((await run('organizations', '--slug', 'leaving')).said).toMatch(/DELETED +leaving *$/m);
  });

  it('deletes an account, and refuses to delete the only ORG_ADMIN of an organization', async () => {
    await create('Staying', 'staying@example.com');
    expect(await run('delete-user', '--email', 'staying@example.com')).toEqual(
      exit(1, 'only ORG_ADMIN of staying'),
    );
    // The account is in no organization any more.
    expect(await run('delete-user', '--email', 'leaving@example.com')).toEqual(
      exit(0, 'leaving@example.com is deleted'),
    );
    expect((await run('delete-user', '--email', 'leaving@example.com')).code).toBe(1);
  });
});

describe('the cron job', () => {
  it('runs in the deployed Worker, too: it discards a key whose creation never finished [C-5.4]', async () => {
    const { apiKey } = await stack.admin.createKey({ name: 'n', partnerId: 'p', scopes: ['vcp:read'] });
    const database = await stack.edge.miniflare.getD1Database('DB');
    const change = `UPDATE api_keys SET state = 'probing', created_at_ms = ? WHERE id = ?`;
    await database
      .prepare(change)
      .bind(Date.now() - HOUR_MS, apiKey.id)
      .run();
    await stack.edge.tick();
    expect(await database.prepare('SELECT 1 FROM api_keys WHERE id = ?').bind(apiKey.id).first()).toBeNull();
  });
});
