/**
 * `npm run sitewire -- admin after-restore`, after time travel has set D1 back: whatever ended since then ends again, by what the
 * objects and a saved audit know, and what neither knows is listed. The files of an earlier time replace those of D1.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { suiteStack } from '#support/suite-stack.ts';
import { AdminClient, type Login, Operator } from '../../tools/admin-client.ts';
import type { SeededDevice, SeededKey } from '../../tools/seed.ts';

const TOOL = join(import.meta.dirname, '..', '..', 'tools', 'admin.ts');
const PASSWORD = 'correct horse battery';
const NEW_PASSWORD = 'another horse battery';
const DAY_MS = 86_400_000;

interface Invited {
  id: string;
  token: string;
}

interface Tokens {
  accessToken: string;
  refreshToken: string;
}

const stack = suiteStack();
const folder = mkdtempSync(join(tmpdir(), 'sitewire-restored-'));
const earlier = join(folder, 'd1');
const audit = join(folder, 'audit.ndjson');
afterAll(() => rmSync(folder, { recursive: true }));

/** The time to which D1 is set back. */
let since: string;
let session: Tokens;
let supportToken: string;
let revoked: SeededKey;
let createdSince: SeededKey;
let suspended: SeededDevice;
let decommissioned: SeededDevice;
let deleted: SeededDevice;
let pending: Invited;
let other: { id: string };
const users: Record<'removed' | 'lowered' | 'erased' | 'renewed' | 'unchanged', { id: string } & Login> =
  {} as never;

/** The tool's exit code and output. */
async function admin(...given: string[]): Promise<{ code: number | null; said: string }> {
  const env = { ...process.env, SITEWIRE_OPERATOR_TOKEN: stack.credentials.operatorToken };
  const child = spawn(process.execPath, [TOOL, ...given, '--url', stack.edge.url], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (part: Buffer) => (said += part));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, said };
}

const afterRestore = (...more: string[]) => admin('after-restore', '--since', since, ...more);

function appliedTo(id: string): RegExp {
  return new RegExp(`^applied +.*${id}`, 'm');
}

function notAppliedTo(id: string): RegExp {
  return new RegExp(`^not applied +.*${id}`, 'm');
}

async function ask(method: string, path: string, body?: unknown, bearer?: string): Promise<Response> {
  return await fetch(`${stack.edge.url}/api/v1${path}`, {
    method,
    headers: {
      'content-type': 'application/json',
      ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

async function logIn({ email, password }: Login): Promise<Response> {
  return await ask('POST', '/auth/login', { email, password });
}

async function invite(email: string, role: string): Promise<Invited> {
  const { id } = stack.credentials.organization;
  return await stack.admin.call<Invited>('POST', `/organizations/${id}/invitations`, { email, role });
}

async function addMember(email: string, role = 'OPERATOR'): Promise<{ id: string } & Login> {
  const { token } = await invite(email, role);
  const body = { token, confirm: true, name: email, password: PASSWORD };
  expect((await ask('POST', '/invitations/accept', body)).status).toBe(200);
  const client = await AdminClient.enter(stack.edge.url, { email, password: PASSWORD });
  const { user } = await client.call<{ user: { id: string } }>('GET', '/auth/me');
  return { id: user.id, email, password: PASSWORD };
}

async function members(): Promise<{ userId: string; role: string }[]> {
  const { id } = stack.credentials.organization;
  return await stack.admin.list<{ userId: string; role: string }>(`/organizations/${id}/members`);
}

async function roleOf({ id }: { id: string }): Promise<string | undefined> {
  return (await members()).find(({ userId }) => userId === id)?.role;
}

async function statusOf({ id }: SeededDevice): Promise<string> {
  return (await stack.admin.call<{ status: string }>('GET', `/devices/${id}`)).status;
}

async function query<Row>(sql: string, ...values: unknown[]): Promise<Row[]> {
  const database = await stack.edge.miniflare.getD1Database('DB');
  const statement = database.prepare(sql);
  const { results } = await (values.length > 0 ? statement.bind(...values) : statement).all<Row>();
  return results;
}

beforeAll(async () => {
  const { plantId, organization, operatorToken } = stack.credentials;
  const operator = new Operator(stack.edge.url, operatorToken);
  [revoked, suspended, decommissioned, deleted] = [
    await stack.addKey(),
    await stack.addDevice(plantId),
    await stack.addDevice(plantId),
    await stack.addDevice(plantId),
  ];
  for (const name of ['removed', 'lowered', 'erased', 'renewed', 'unchanged'] as const)
    users[name] = await addMember(`${name}@example.com`, name === 'lowered' ? 'ADMIN' : 'OPERATOR');
  pending = await invite('pending@example.com', 'ADMIN');
  const login = { email: 'otto@example.com', password: PASSWORD };
  await operator.createOrganization({ name: 'Other', slug: 'other' }, { ...login, name: 'Otto' });
  const otto = await AdminClient.enter(stack.edge.url, login);
  [other = { id: '' }] = await otto.list<{ id: string }>('/organizations');
  await otto.call('POST', '/plants', { name: 'Elsewhere' });
  session = (await (await logIn(users.unchanged)).json()) as Tokens;
  const support = await operator.call<{ id: string; token: string }>(
    'POST',
    `/organizations/${organization.id}/support`,
    { reason: 'a test' },
  );
  supportToken = support.token;
  // A mail that waits at that time, and that was sent since.
  await query(
    `INSERT INTO mails (id, kind, sealed, due_at_ms, created_at_ms) VALUES ('waiting', 'INVITATION', 'x', ?, ?)`,
    Date.now() + DAY_MS,
    Date.now(),
  );

  await stack.restartEdge({}, () => {
    cpSync(stack.databaseFolder, earlier, { recursive: true });
    since = new Date().toISOString();
  });

  await stack.admin.call('DELETE', `/partner/api-keys/${revoked.id}`);
  await stack.admin.call('POST', `/devices/${suspended.id}/suspend`, {});
  await stack.admin.call('POST', `/devices/${decommissioned.id}/revoke`, {});
  await stack.admin.call('DELETE', `/devices/${deleted.id}`);
  await stack.admin.call('DELETE', `/organizations/${organization.id}/members/${users.removed.id}`);
  await stack.admin.call('PATCH', `/users/${users.lowered.id}`, { role: 'VIEWER' });
  await stack.admin.call('DELETE', `/organizations/${organization.id}/invitations/${pending.id}`);
  await stack.admin.call('DELETE', `/organizations/${organization.id}/support-sessions/${support.id}`);
  await operator.call('POST', '/users/delete', { email: users.erased.email });
  await operator.call('POST', `/organizations/${other.id}/suspend`, { reason: 'a test' });
  const { id: _user, ...renewed } = users.renewed;
  const renewing = await AdminClient.enter(stack.edge.url, renewed);
  const change = { currentPassword: PASSWORD, newPassword: NEW_PASSWORD };
  await renewing.call('POST', '/auth/change-password', change);
  expect((await ask('DELETE', '/auth/sessions', undefined, session.accessToken)).ok).toBe(true);
  expect((await ask('POST', '/auth/logout', {}, session.accessToken)).status).toBe(200);
  createdSince = await stack.addKey();

  const saved = await admin('save-audit', '--since', since, '--file', audit);
  expect(saved).toEqual({ code: 0, said: expect.stringContaining('audit events') });
  await stack.restartEdge({}, () => {
    rmSync(stack.databaseFolder, { recursive: true });
    cpSync(earlier, stack.databaseFolder, { recursive: true });
  });
}, 120_000);

describe('D1 as time travel leaves it', () => {
  it('accepts what had ended: this is what the command is for', async () => {
    expect(await statusOf(suspended)).toBe('ACTIVE');
    expect(await roleOf(users.removed)).toBe('OPERATOR');
    expect((await ask('GET', '/auth/me', undefined, session.accessToken)).status).toBe(200);
    expect((await ask('POST', '/invitations/verify', { token: pending.token })).status).toBe(200);
    expect((await ask('GET', '/plants', undefined, supportToken)).status).toBe(200);
  });
});

describe('npm run sitewire -- admin after-restore, with wrong arguments', () => {
  it('prints its usage for a time that is missing, is not a time, or is in the future', async () => {
    const future = new Date(Date.now() + DAY_MS).toISOString();
    for (const given of [[], ['--since', 'yesterday'], ['--since', ''], ['--since', future]])
      expect(await admin('after-restore', ...given)).toEqual({
        code: 2,
        said: expect.stringContaining('--since'),
      });
  });

  it('refuses a saved audit that is missing, was cut off, was changed or begins after that time, and changes nothing', async () => {
    const text = readFileSync(audit, 'utf8');
    const lines = text.trimEnd().split('\n');
    expect(lines.length).toBeGreaterThan(8);
    const wrong = join(folder, 'wrong.ndjson');
    for (const [content, why] of [
      ['', /header/],
      [`${lines.slice(0, -1).join('\n')}\n`, /cut off/],
      [text.slice(0, -20), /cut off/],
      [text.replace(lines[2] ?? '', 'not JSON'), /line 3/],
      [text.replace(lines[2] ?? '', '{"event":"user.crowned"}'), /line 3/],
      [`${text}${lines[2]}\n`, /after its last/],
      [text.replace(since, new Date().toISOString()), /begins at/],
    ] as const) {
      writeFileSync(wrong, content);
      const { code, said } = await afterRestore('--audit', wrong);
      expect([code, said]).toEqual([1, expect.stringMatching(why)]);
    }
    expect((await afterRestore('--audit', join(folder, 'no-such-file'))).code).toBe(1);
    expect((await ask('GET', '/auth/me', undefined, session.accessToken)).status).toBe(200);
  });
});

describe('npm run sitewire -- admin after-restore, by what the objects know', () => {
  let said: string;
  beforeAll(async () => {
    const done = await afterRestore();
    expect(done.code).toBe(0);
    said = done.said;
  }, 60_000);

  it('ends every session, and every token that was mailed or handed over', async () => {
    expect((await ask('GET', '/auth/me', undefined, session.accessToken)).status).toBe(401);
    const { refreshToken } = session;
    expect((await ask('POST', '/auth/refresh', { refreshToken })).status).toBe(401);
    expect((await ask('GET', '/plants', undefined, supportToken)).status).toBe(401);
    expect((await ask('POST', '/invitations/verify', { token: pending.token })).status).toBe(404);
    expect(said).toMatch(/^applied +.*sessions/m);
    expect(said).toContain('pending@example.com');
  });

  it('deletes the mails that waited at that time, because they were sent since', async () => {
    expect(await query('SELECT id FROM mails')).toEqual([]);
  });

  // The object of the key may have written the revocation to D1 before the command asks it.
  it('revokes each key whose object is revoked, for REST and in the list', async () => {
    expect((await stack.rest('/vcp/sites', revoked.key)).status).toBe(401);
    const keys = await stack.admin.list<{ id: string; isActive: boolean }>('/partner/api-keys');
    expect(keys.find(({ id }) => id === revoked.id)?.isActive).toBe(false);
    expect((await stack.rest('/vcp/sites')).status).toBe(200);
  });

  it('gives each device the status that its Site knows, and lists one that its Site does not have', async () => {
    expect([await statusOf(suspended), await statusOf(decommissioned)]).toEqual([
      'SUSPENDED',
      'DECOMMISSIONED',
    ]);
    for (const { id } of [suspended, decommissioned]) expect(said).toMatch(appliedTo(id));
    expect(said).toMatch(notAppliedTo(deleted.id));
    expect(await statusOf(stack.credentials.gateway)).toBe('ACTIVE');
    expect(said).not.toContain(stack.credentials.gateway.id);
  });

  it('raises the version of each organization past every one that an object may have', async () => {
    const [row] = await query<{ least: number }>('SELECT min(registry_version) AS least FROM organizations');
    expect(row?.least).toBeGreaterThan(1_000_000);
    const settings = { requireSignedCommands: true };
    await stack.admin.call('PATCH', `/organizations/${stack.credentials.organization.id}`, { settings });
  });

  it('says that members, accounts and passwords need the saved audit', () => {
    expect(said).toMatch(/^not applied +.*members.*--audit/m);
  });
});

describe('npm run sitewire -- admin after-restore, with the saved audit', () => {
  let said: string;
  beforeAll(async () => {
    const done = await afterRestore('--audit', audit);
    expect(done.code).toBe(0);
    said = done.said;
  }, 60_000);

  it('removes the members that were removed, and lowers the roles that were lowered', async () => {
    expect(await roleOf(users.removed)).toBeUndefined();
    expect(await roleOf(users.lowered)).toBe('VIEWER');
    expect(await roleOf(users.unchanged)).toBe('OPERATOR');
    for (const { id } of [users.removed, users.lowered]) expect(said).toMatch(appliedTo(id));
    expect(said).not.toContain(users.unchanged.id);
  });

  it('deletes the accounts that were deleted, with their personal data', async () => {
    expect(said).toMatch(appliedTo(users.erased.id));
    expect((await logIn(users.erased)).status).toBe(401);
    const [row] = await query<{ email: string }>('SELECT email FROM users WHERE id = ?', users.erased.id);
    expect(row?.email).toMatch(/@deleted\.invalid$/);
  });

  it('refuses a password that was replaced, and lists who must set a new one', async () => {
    expect((await logIn(users.renewed)).status).toBe(401);
    expect((await logIn({ ...users.renewed, password: NEW_PASSWORD })).status).toBe(401);
    expect(said).toMatch(notAppliedTo(users.renewed.id));
    expect((await logIn(users.unchanged)).status).toBe(200);
  });

  it('suspends the organizations that were suspended', async () => {
    expect((await admin('organizations', '--slug', 'other')).said).toMatch(/SUSPENDED +other/);
    expect(said).toMatch(appliedTo(other.id));
  });

  it('deletes the devices that were deleted', async () => {
    expect((await stack.admin.ask('GET', `/devices/${deleted.id}`)).status).toBe(404);
    expect(said).toMatch(appliedTo(deleted.id));
  });

  it('lists what was created since then and is lost', () => {
    expect(said).toMatch(notAppliedTo(createdSince.id));
  });

  it('puts the audit events since then back, each once', async () => {
    const revocations = `SELECT id FROM audit_events WHERE event = 'api_key.revoked' AND target = ?`;
    expect(await query(revocations, revoked.id)).toHaveLength(1);
  });

  it('changes nothing when it is run again, but ends the sessions since', async () => {
    const before = await query('SELECT id, status, status_at_ms FROM devices ORDER BY id');
    const { code, said: again } = await afterRestore('--audit', audit);
    expect(code).toBe(0);
    for (const id of [revoked.id, suspended.id, deleted.id, other.id, users.removed.id, users.erased.id])
      expect(again).not.toMatch(appliedTo(id));
    expect(await query('SELECT id, status, status_at_ms FROM devices ORDER BY id')).toEqual(before);
  });
});
