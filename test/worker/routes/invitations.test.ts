/** Nobody becomes a member without accepting an invitation, which has a secret token [C-11.2]. */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { anonymous, bodyOf } from '#workerd/client.ts';
import { countOf, rowsFrom, runSql } from '#workerd/d1.ts';
import { joinOrganization, logIn, PASSWORD, Person, uniqueEmail } from '#workerd/people.ts';
import type { Invitation } from '#workerd/team.ts';
import { describe, expect, expectError, INSTANT, test, UUID } from '#workerd/worker-test.ts';
import { createOrganization } from '#workerd/world.ts';
import { sha256Hex } from '../../../durable-objects/secrets/hmac.ts';
import type { Role } from '../../../protocol/enums.ts';
import type { LoginAnswer } from '../../../protocol/user.ts';
import { dropOldInvitations } from '../../../registry/invitations.ts';

const DAY_MS = 86_400_000;
const ROLES: Role[] = ['VIEWER', 'OPERATOR', 'ADMIN', 'ORG_ADMIN'];
const UNKNOWN = 'A'.repeat(43);
const NEWCOMER = { confirm: true, name: 'Newcomer', password: PASSWORD };

interface Accepted {
  organization: { id: string; name: string; slug: string };
  role: Role;
  session: LoginAnswer | null;
}

const it = test.extend('path', ({ ownTeam }) => `/organizations/${ownTeam.id}/invitations`);

function accept(by: Person | typeof anonymous, body: object): Promise<Response> {
  return by.post('/invitations/accept', body);
}

async function expireAt(atMs: number, id: string | undefined): Promise<void> {
  await runSql('UPDATE invitations SET expires_at_ms = ? WHERE id = ?', atMs, id);
}

function verify(token: unknown): Promise<Response> {
  return anonymous.post('/invitations/verify', { token });
}

describe('an invitation', () => {
  it('has a token and a link, is valid for seven days, and makes nobody a member [C-11.2]', async ({
    ownTeam,
    person,
  }) => {
    const made = await ownTeam.invite(person.email.toUpperCase(), 'OPERATOR');
    expect(made).toEqual({
      id: UUID,
      email: person.email,
      role: 'OPERATOR',
      status: 'PENDING',
      expiresAt: INSTANT,
      createdBy: ownTeam.orgAdmin.id,
      createdAt: INSTANT,
      token: expect.stringMatching(/^[\w-]{43}$/),
      url: `https://sitewire.example/accept-invitation#token=${made.token}`,
    });
    expect(Date.parse(made.expiresAt) - Date.parse(made.createdAt)).toBe(7 * DAY_MS);
    expect(await ownTeam.hasMember(person)).toBe(false);
    expect(await person.read('/auth/me')).toMatchObject({ memberships: [] });
  });

  it('is also made by POST members, with the same answer for a known and an unknown address [C-1.1]', async ({
    ownTeam,
    person,
  }) => {
    const answers = [];
    for (const email of [person.email, uniqueEmail()]) {
      const response = await ownTeam.admin.post(`/organizations/${ownTeam.id}/members`, {
        email,
        role: 'VIEWER',
      });
      const { token, ...body } = (await response.json()) as Invitation;
      answers.push([response.status, Object.keys(body), body.status, token.length]);
    }
    expect(answers[0]).toEqual([201, expect.any(Array), 'INVITED', 43]);
    expect(answers[1]).toEqual(answers[0]);
    expect((await ownTeam.listInvitations()).data).toHaveLength(2);
  });

  it('is stored without its token [C-11.1]', async ({ ownTeam, person }) => {
    const { token } = await ownTeam.invite(person.email);
    for (const table of ['invitations', 'audit_events'])
      expect(JSON.stringify(await rowsFrom(`SELECT * FROM ${table}`))).not.toContain(token);
    expect(JSON.stringify(await ownTeam.listInvitations())).not.toContain(token);
  });

  it('gives at most the role of the person who invites: a higher role gets 403 [C-11.2]', async ({
    ownTeam,
    path,
  }) => {
    const allowed = [[], [], ROLES.slice(0, 3), ROLES];
    for (const [index, by] of ownTeam.members.entries()) {
      for (const role of ROLES) {
        const response = await by.post(path, { email: uniqueEmail(), role });
        if (allowed[index]?.includes(role)) expect(response.status).toBe(201);
        else await expectError(response, 403, 'INSUFFICIENT_ORG_PERMISSIONS');
      }
    }
  });

  it('to the address of a member gets 409 [C-11.2]', async ({ ownTeam, path }) => {
    for (const { email } of ownTeam.members) {
      await expectError(await ownTeam.orgAdmin.post(path, { email, role: 'VIEWER' }), 409, 'CONFLICT');
    }
  });

  it('replaces a pending one to the same e-mail address, whose token becomes invalid [C-11.2]', async ({
    ownTeam,
  }) => {
    const email = uniqueEmail();
    const first = await ownTeam.invite(email, 'ADMIN');
    const second = await ownTeam.invite(email, 'VIEWER');
    await expectError(await verify(first.token), 404, 'INVITATION_NOT_FOUND');
    expect((await verify(second.token)).status).toBe(200);
    expect((await ownTeam.listInvitations()).data.map(({ id, status }) => [id, status])).toEqual([
      [second.id, 'PENDING'],
      [first.id, 'REVOKED'],
    ]);
  });

  it('gets 429 after a hundred of its organization in a day, resent ones included [C-14.2]', async ({
    ownTeam,
    path,
  }) => {
    const { id } = await ownTeam.invite(uniqueEmail());
    await runSql('UPDATE invitations SET sends = 99 WHERE id = ?', id);
    await ownTeam.invite(uniqueEmail());
    const body = { email: uniqueEmail(), role: 'VIEWER' };
    for (const full of [path, `${path}/${id}/resend`]) {
      const response = await ownTeam.orgAdmin.post(full, full === path ? body : undefined);
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
      await expectError(response, 429, 'TOO_MANY_REQUESTS');
    }
    await runSql('UPDATE invitations SET sent_at_ms = sent_at_ms - ? WHERE id = ?', DAY_MS, id);
    expect((await ownTeam.orgAdmin.post(path, body)).status).toBe(201);
  });

  it('gets 400 unless its body has an e-mail address, a role and nothing else (bad input: REST)', async ({
    ownTeam,
    path,
  }) => {
    const right = { email: uniqueEmail(), role: 'VIEWER' };
    const bodies = [
      ...['SUPER_ADMIN', 'viewer', '', null, 1, ['VIEWER'], undefined].map((role) => ({ ...right, role })),
      { role: 'VIEWER' },
      { ...right, email: 'x' },
      { ...right, organizationId: crypto.randomUUID() },
      null,
    ];
    for (const body of bodies)
      await expectError(await ownTeam.orgAdmin.post(path, body), 400, 'VALIDATION_ERROR');
    expect((await ownTeam.listInvitations()).data).toEqual([]);
  });
});

describe('the invitations of an organization', () => {
  it('are listed in pages, newest first, and by status [C-11.2]', async ({ ownTeam }) => {
    const made: Invitation[] = [];
    for (let one = 0; one < 5; one++) made.push(await ownTeam.invite(uniqueEmail()));
    const ids = made.map(({ id }) => id).reverse();
    const pages = [
      await ownTeam.listInvitations('?limit=3'),
      await ownTeam.listInvitations('?limit=3&page=2'),
    ];
    expect(pages.flatMap(({ data }) => data.map(({ id }) => id))).toEqual(ids);
    expect(pages[0]?.meta).toEqual({ page: 1, limit: 3, total: 5, totalPages: 2 });
    await expireAt(1, ids[0]);
    await accept(anonymous, { token: made[0]?.token, ...NEWCOMER });
    const totals = [];
    for (const status of ['PENDING', 'ACCEPTED', 'REVOKED', 'EXPIRED']) {
      const { data, meta } = await ownTeam.listInvitations(`?status=${status}`);
      expect(data.every((one) => one.status === status)).toBe(true);
      totals.push(meta.total);
    }
    expect(totals).toEqual([3, 1, 0, 1]);
  });

  it('cannot be seen or ended by a VIEWER or OPERATOR (403), or through another organization (404) [C-1.3]', async ({
    ownTeam,
    other,
    path,
  }) => {
    const { id, token } = await ownTeam.invite(uniqueEmail());
    for (const by of [ownTeam.viewer, ownTeam.operator]) {
      await expectError(await by.call(path), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
      await expectError(await by.delete(`${path}/${id}`), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
      await expectError(await by.post(`${path}/${id}/resend`), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    }
    const theirs = `/organizations/${other.id}/invitations`;
    for (const one of [id, crypto.randomUUID()]) {
      await expectError(await other.admin.delete(`${theirs}/${one}`), 404, 'INVITATION_NOT_FOUND');
      await expectError(await other.admin.post(`${theirs}/${one}/resend`), 404, 'INVITATION_NOT_FOUND');
    }
    await expectError(await ownTeam.admin.delete(`${path}/x`), 400, 'INVALID_UUID');
    expect((await verify(token)).status).toBe(200);
  });

  it('can be revoked once: its token, a second revocation and a resend then get 404 [C-11.2]', async ({
    ownTeam,
    path,
    person,
  }) => {
    const { id, token } = await ownTeam.invite(person.email);
    expect(await ownTeam.admin.read(`${path}/${id}`, { method: 'DELETE' })).toEqual({ id, revoked: true });
    await expectError(await verify(token), 404, 'INVITATION_NOT_FOUND');
    await expectError(await accept(person, { token, confirm: true }), 404, 'INVITATION_NOT_FOUND');
    await expectError(await ownTeam.admin.delete(`${path}/${id}`), 404, 'INVITATION_NOT_FOUND');
    await expectError(await ownTeam.admin.post(`${path}/${id}/resend`), 404, 'INVITATION_NOT_FOUND');
  });

  it('can be sent again: the new token is valid for seven days, the old one becomes invalid [C-11.2]', async ({
    ownTeam,
    path,
  }) => {
    const first = await ownTeam.invite(uniqueEmail());
    await expireAt(1, first.id);
    const second = await bodyOf<Invitation>(await ownTeam.admin.post(`${path}/${first.id}/resend`), 200);
    expect(second).toMatchObject({
      id: first.id,
      status: 'PENDING',
      token: expect.not.stringMatching(first.token),
    });
    expect(Date.parse(second.expiresAt) - Date.now()).toBeGreaterThan(6 * DAY_MS);
    await expectError(await verify(first.token), 404, 'INVITATION_NOT_FOUND');
    expect((await verify(second.token)).status).toBe(200);
  });

  it('cannot be sent again by a member of a lower role: 403 [C-11.2]', async ({ ownTeam, path }) => {
    const { id } = await ownTeam.invite(uniqueEmail(), 'ORG_ADMIN');
    const response = await ownTeam.admin.post(`${path}/${id}/resend`);
    await expectError(response, 403, 'INSUFFICIENT_ORG_PERMISSIONS');
  });

  it('are deleted 30 days after their end [C-11.2]', async ({ ownTeam }) => {
    const [old, recent] = [await ownTeam.invite(uniqueEmail()), await ownTeam.invite(uniqueEmail())];
    await expireAt(Date.now() - 30 * DAY_MS - 1, old.id);
    await expireAt(Date.now() - 29 * DAY_MS, recent.id);
    await dropOldInvitations(env.DB, Date.now(), 1_000);
    expect((await ownTeam.listInvitations()).data.map(({ id }) => id)).toEqual([recent.id]);
  });
});

describe('the token of an invitation', () => {
  it('shows organization, role and address without a session, and whether the address has an account [C-11.2]', async ({
    ownTeam,
    person,
  }) => {
    for (const [email, accountExists] of [
      [person.email, true],
      [uniqueEmail(), false],
    ] as const) {
      const { token, expiresAt } = await ownTeam.invite(email, 'ADMIN');
      const organization = { name: ownTeam.slug, slug: ownTeam.slug };
      expect(await bodyOf(await verify(token), 200)).toEqual({
        organization,
        email,
        role: 'ADMIN',
        expiresAt,
        accountExists,
      });
    }
  });

  it('gets an error code of its own if it is missing, malformed, unknown, expired or used [C-11.2]', async ({
    ownTeam,
    person,
  }) => {
    const calls = [
      (token: unknown) => verify(token),
      (token: unknown) => accept(person, { token, confirm: true }),
    ];
    const expired = await ownTeam.invite(person.email);
    await expireAt(1, expired.id);
    const newcomer = await ownTeam.invite(uniqueEmail());
    expect((await accept(anonymous, { token: newcomer.token, ...NEWCOMER })).status).toBe(200);
    for (const call of calls) {
      for (const missing of [undefined, null, ''])
        await expectError(await call(missing), 400, 'INVITATION_TOKEN_MISSING');
      for (const wrong of [
        'x',
        1,
        {},
        UNKNOWN.slice(1),
        `${UNKNOWN}A`,
        `${UNKNOWN.slice(1)}+`,
        `${UNKNOWN.slice(1)}\n`,
      ])
        await expectError(await call(wrong), 400, 'ACCEPT_INVITE_TOKEN_INVALID_FORMAT');
      await expectError(await call(UNKNOWN), 404, 'INVITATION_NOT_FOUND');
      await expectError(await call(expired.token), 410, 'INVITATION_EXPIRED');
      await expectError(await call(newcomer.token), 409, 'INVITATION_ALREADY_ACCEPTED');
    }
  });

  it('can be tried twenty times a minute from one address; further attempts get 429 [C-11.2]', async ({
    ownTeam,
  }) => {
    const { token } = await ownTeam.invite(uniqueEmail());
    const block = crypto.getRandomValues(new Uint8Array(2)).join('.');
    const tryFrom = (host: number, path: string, body: object) => {
      const headers = { 'cf-connecting-ip': `10.${block}.${host}` };
      return anonymous.post(`/invitations/${path}`, body, { headers });
    };
    vi.useFakeTimers({ toFake: ['Date'] });
    for (let time = 0; time < 20; time++) expect((await tryFrom(1, 'verify', { token })).status).toBe(200);
    const response = await tryFrom(1, 'verify', { token });
    expect(response.headers.get('retry-after')).toMatch(/^[1-9]\d?$/);
    await expectError(response, 429, 'INVITATION_VERIFY_THROTTLED');
    await expectError(await tryFrom(1, 'accept', { token, ...NEWCOMER }), 429, 'INVITATION_VERIFY_THROTTLED');
    expect((await tryFrom(2, 'verify', { token })).status).toBe(200);
  });
});

describe('accepting an invitation', () => {
  it('makes the user of the session a member once; concurrent and later attempts get 409 [C-11.2]', async ({
    ownTeam,
    person,
  }) => {
    const { id, token } = await ownTeam.invite(person.email, 'OPERATOR');
    const answers = await Promise.all([1, 2, 3].map(() => accept(person, { token, confirm: true })));
    const accepted = answers.find(({ status }) => status === 200);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
    const organization = { id: ownTeam.id, name: ownTeam.slug, slug: ownTeam.slug };
    expect(await accepted?.json()).toEqual({ organization, role: 'OPERATOR', session: null });
    expect(await ownTeam.hasMember(person)).toBe(true);
    expect(await ownTeam.trailOf(person.id)).toEqual([
      ['member.joined', person.id, 'USER', { role: 'OPERATOR', invitation: id }],
    ]);
    await expectError(await accept(person, { token, confirm: true }), 409, 'INVITATION_ALREADY_ACCEPTED');
  });

  it('creates the account of a new person, with a session and its cookie [C-11.2]', async ({ ownTeam }) => {
    const email = uniqueEmail();
    const { token } = await ownTeam.invite(email, 'ADMIN');
    const response = await accept(anonymous, { token, ...NEWCOMER });
    expect(response.headers.get('set-cookie')).toMatch(/^access_token=[^;]+; .*HttpOnly/);
    const { role, session } = await bodyOf<Accepted>(response, 200);
    expect([role, session?.user.email, session?.user.name]).toEqual(['ADMIN', email, 'Newcomer']);
    const headers = { authorization: `Bearer ${session?.accessToken}` };
    expect(await anonymous.read(`/organizations/${ownTeam.id}`, { headers })).toMatchObject({
      role: 'ADMIN',
    });
    expect((await logIn(email)).status).toBe(200);
  });

  it('twice concurrently, without an account, creates one account [C-11.2]', async ({ ownTeam }) => {
    const email = uniqueEmail();
    const { token } = await ownTeam.invite(email);
    const answers = await Promise.all([1, 2].map(() => accept(anonymous, { token, ...NEWCOMER })));
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    expect(statuses.every((status) => [200, 401, 409].includes(status))).toBe(true);
    expect(await countOf('users', 'email = ?', email)).toBe(1);
  });

  it('gets 401 without a session if the account exists, and 403 with the session of another account [C-11.2]', async ({
    ownTeam,
    person,
  }) => {
    const { token } = await ownTeam.invite(person.email);
    await expectError(await accept(anonymous, { token, ...NEWCOMER }), 401, 'UNAUTHORIZED');
    const stranger = await Person.register();
    await expectError(await accept(stranger, { token, confirm: true }), 403, 'INVITATION_EMAIL_MISMATCH');
    const unregistered = await ownTeam.invite(uniqueEmail());
    const refused = await accept(stranger, { token: unregistered.token, confirm: true });
    await expectError(refused, 403, 'INVITATION_EMAIL_MISMATCH');
    expect([await ownTeam.hasMember(person), await ownTeam.hasMember(stranger)]).toEqual([false, false]);
  });

  it('gets 403 ORIGIN_MISMATCH with the cookie from another origin [C-1.6]', async ({ ownTeam, person }) => {
    const { token } = await ownTeam.invite(person.email);
    const headers = { origin: 'https://evil.example' };
    const body = { token, confirm: true };
    const response = await person.callWithCookie('/invitations/accept', { method: 'POST', body, headers });
    await expectError(response, 403, 'ORIGIN_MISMATCH');
    expect(await ownTeam.hasMember(person)).toBe(false);
  });

  it('gets 400 without a confirmation, or without name and password of a new person [C-11.2]', async ({
    ownTeam,
  }) => {
    const { token } = await ownTeam.invite(uniqueEmail());
    const by = (changes: object) => accept(anonymous, { token, ...NEWCOMER, ...changes });
    await expectError(await by({ confirm: undefined }), 400, 'INVITATION_CONFIRMATION_REQUIRED');
    for (const confirm of [false, null, 1, 'true', {}])
      await expectError(await by({ confirm }), 400, 'INVITATION_CONFIRMATION_INVALID');
    const nameless = await by({ name: undefined, password: undefined });
    const { details } = await expectError(nameless, 400, 'VALIDATION_ERROR');
    expect(details).toEqual([
      expect.stringMatching(/^name: required/),
      expect.stringMatching(/^password: required/),
    ]);
    for (const wrong of [{ name: ' ' }, { password: 'short' }, { role: 'ORG_ADMIN' }])
      await expectError(await by(wrong), 400, 'VALIDATION_ERROR');
    expect((await by({})).status).toBe(200);
  });

  it('fails without the token of the invitation, even for an account with the invited address [C-11.2]', async ({
    ownTeam,
  }) => {
    const squatter = await Person.register();
    const { token: replaced } = await ownTeam.invite(squatter.email, 'ADMIN');
    const { id, token } = await ownTeam.invite(squatter.email, 'ADMIN');
    const { token: ofOther } = await ownTeam.invite(uniqueEmail(), 'ADMIN');
    const by = (known: unknown) => accept(squatter, { token: known, confirm: true });
    // The squatter owns the account, but not the mailbox, and may know all of the invitation except its token.
    await expectError(await by(undefined), 400, 'INVITATION_TOKEN_MISSING');
    for (const known of [id, squatter.email, sha256Hex(token)])
      await expectError(await by(known), 400, 'ACCEPT_INVITE_TOKEN_INVALID_FORMAT');
    const first = token.startsWith('A') ? 'B' : 'A';
    for (const known of [UNKNOWN, replaced, `${first}${token.slice(1)}`])
      await expectError(await by(known), 404, 'INVITATION_NOT_FOUND');
    await expectError(await by(ofOther), 403, 'INVITATION_EMAIL_MISMATCH');
    expect(await ownTeam.hasMember(squatter)).toBe(false);
    expect((await by(token)).status).toBe(200);
    expect(await ownTeam.hasMember(squatter)).toBe(true);
  });

  it('gets 409 while the organization has 1 000 members [C-14.2]', async ({ ownTeam, person }) => {
    const { token } = await ownTeam.invite(person.email);
    const ids = Array.from({ length: 996 }, () => crypto.randomUUID());
    const user = env.DB.prepare(`INSERT INTO users (id, email, name, created_at_ms) VALUES (?1, ?1, 'x', 1)`);
    const member = env.DB.prepare(
      `INSERT INTO memberships (organization_id, user_id, role, created_at_ms) VALUES (?, ?, 'VIEWER', 1)`,
    );
    await env.DB.batch(ids.flatMap((id) => [user.bind(id), member.bind(ownTeam.id, id)]));
    await expectError(await accept(person, { token, confirm: true }), 409, 'CONFLICT');
    expect(await ownTeam.hasMember(person)).toBe(false);
    await runSql('DELETE FROM memberships WHERE user_id = ?', ids[0]);
    expect((await accept(person, { token, confirm: true })).status).toBe(200);
  });

  it('gets 409 while the person is a member of 100 organizations [C-14.2]', async ({ ownTeam, person }) => {
    const { token } = await ownTeam.invite(person.email);
    for (let count = 0; count < 100; count++)
      await joinOrganization((await createOrganization()).id, person, 'VIEWER');
    await expectError(await accept(person, { token, confirm: true }), 409, 'CONFLICT');
    expect(await ownTeam.hasMember(person)).toBe(false);
    const leave =
      'DELETE FROM memberships WHERE rowid = (SELECT min(rowid) FROM memberships WHERE user_id = ?)';
    await runSql(leave, person.id);
    expect((await accept(person, { token, confirm: true })).status).toBe(200);
  });
});
