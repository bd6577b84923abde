/** Constraints of organizations, users and their sessions, keys, audit rows and changes: the bad row is refused, the good one taken. */
import { env } from 'cloudflare:workers';
import { beforeEach, describe, expect, it } from 'vitest';
import { ROLES } from '../../../protocol/enums.ts';
import { CHECK, FOREIGN, NOT_NULL, RegistryRows, UNIQUE } from '../../support/workerd/registry-rows.ts';
import { randomHex } from '../../support/workerd/world.ts';

let rows: RegistryRows;

beforeEach(async () => {
  rows = await RegistryRows.create();
});

describe('organizations', () => {
  it('have a slug of 1 to 40 lower-case letters, digits and hyphens [C-1.1]', async () => {
    await rows.expectTaken('organizations', { slug: 'a' }, { slug: '0' }, { slug: randomHex(20) });
    const bad = ['', 'Acme', 'acme.', 'acme_x', 'a b', 'acme*', 'ačme', 'acme\n', 'acme/', 'a'.repeat(41)];
    await rows.expectRefused('organizations', CHECK, ...bad.map((slug) => ({ slug })));
    await rows.expectRefused('organizations', NOT_NULL, { slug: null });
  });

  it.each(['-hyphen-first', 'hyphen-last-'])(
    'do not have the slug %s, with a hyphen at an end [C-1.1]',
    async (slug) => {
      await rows.expectRefused('organizations', CHECK, { slug });
    },
  );

  it('share no slug [C-1.1]', async () => {
    await rows.expectRefused('organizations', UNIQUE, { slug: rows.organization.slug });
  });

  it('have settings that are JSON (migrations/schema.ts)', async () => {
    await rows.expectTaken('organizations', { settings: '{}' }, { settings: '{"a":[1,null]}' });
    await rows.expectRefused('organizations', CHECK, { settings: '' }, { settings: '{' }, { settings: 'x' });
    await rows.expectRefused('organizations', NOT_NULL, { settings: null });
  });

  it('begin at registry version 1, and always have one (migrations/schema.ts)', async () => {
    const { id = '' } = await rows.insert('organizations');
    const version = env.DB.prepare('SELECT registry_version FROM organizations WHERE id = ?').bind(id);
    expect(await version.first('registry_version')).toBe(1);
    await rows.expectRefused('organizations', NOT_NULL, { registry_version: null });
  });
});

describe('users', () => {
  it('have an e-mail in lower case that nobody else has [C-1.4]', async () => {
    const { email = '' } = await rows.insert('users');
    await rows.expectRefused('users', UNIQUE, { email });
    await rows.expectRefused('users', CHECK, { email: 'A@example.org' }, { email: 'a@Example.org' });
    await rows.expectRefused('users', NOT_NULL, { email: null });
  });

  it('need no password yet, and begin at token version 1 as nobody special [C-1.4]', async () => {
    const { id = '' } = await rows.insert('users');
    const user = await env.DB.prepare(
      'SELECT password_hash, super_admin, token_version, last_login_at_ms FROM users WHERE id = ?',
    )
      .bind(id)
      .first();
    expect(user).toEqual({ password_hash: null, super_admin: 0, token_version: 1, last_login_at_ms: null });
  });
});

describe('sessions', () => {
  it('are of a user who exists, and begin at generation 1, not revoked [C-1.4]', async () => {
    const { id = '' } = await rows.insert('sessions');
    const session = await env.DB.prepare(
      'SELECT generation, revoked_at_ms, address FROM sessions WHERE id = ?',
    )
      .bind(id)
      .first();
    expect(session).toEqual({ generation: 1, revoked_at_ms: null, address: null });
    await rows.expectRefused('sessions', FOREIGN, { user_id: crypto.randomUUID() });
    await rows.expectRefused('sessions', UNIQUE, { id });
    await rows.expectRefused('sessions', NOT_NULL, { user_id: null }, { expires_at_ms: null });
  });
});

describe('wrong logins', () => {
  it('are one row for an e-mail, known or not [C-1.4]', async () => {
    const { email = '' } = await rows.insert('login_failures');
    await rows.expectRefused('login_failures', UNIQUE, { email });
    await rows.expectRefused('login_failures', NOT_NULL, { failures: null }, { first_at_ms: null });
  });
});

describe('memberships', () => {
  it.each(ROLES)('take the role %s [C-1.2]', async (role) => {
    await rows.expectTaken('memberships', { role });
  });

  it('take no other role [C-1.2]', async () => {
    const bad = ['', 'admin', 'SUPER_ADMIN', 'OWNER', ' ADMIN'];
    await rows.expectRefused('memberships', CHECK, ...bad.map((role) => ({ role })));
    await rows.expectRefused('memberships', NOT_NULL, { role: null });
  });

  it('are one for each user and organization, and only where both exist [C-1.2]', async () => {
    await rows.insert('memberships');
    await rows.expectRefused('memberships', UNIQUE, {}, { role: 'VIEWER' });
    const id = crypto.randomUUID();
    await rows.expectRefused('memberships', FOREIGN, { user_id: id }, { organization_id: id });
    const { id: user = '' } = await rows.insert('users');
    await rows.expectTaken('memberships', { user_id: user });
  });
});

describe('API keys', () => {
  it('share no hash, in the organization or out of it [C-5.1]', async () => {
    const { key_hash = '' } = await rows.insert('api_keys');
    await rows.expectRefused('api_keys', UNIQUE, { key_hash });
    const other = await RegistryRows.create();
    await other.expectRefused('api_keys', UNIQUE, { key_hash });
  });

  it.each(['name', 'partner_id'])('have a %s of 1 to 100 characters (spec: Limits)', async (column) => {
    const texts = ['x', 'x'.repeat(100), 'č'.repeat(100), '⚡'.repeat(100)];
    await rows.expectTaken('api_keys', ...texts.map((text) => ({ [column]: text })));
    await rows.expectRefused('api_keys', CHECK, { [column]: '' }, { [column]: 'x'.repeat(101) });
    await rows.expectRefused('api_keys', NOT_NULL, { [column]: null });
  });

  it('have scopes, a JSON array with at least one (spec: Scopes)', async () => {
    await rows.expectTaken('api_keys', { scopes: '["vcp:read","vcp:connect"]' });
    const bad = ['[]', '{}', '"vcp:read"', 'null', '1', '{"0":"vcp:read"}'];
    await rows.expectRefused('api_keys', CHECK, ...bad.map((scopes) => ({ scopes })));
    await rows.expectRefused('api_keys', /malformed JSON/, { scopes: 'vcp:read' }, { scopes: '' });
    await rows.expectRefused('api_keys', NOT_NULL, { scopes: null });
  });

  it('belong to an organization and a creator that exist [C-5.2]', async () => {
    const id = crypto.randomUUID();
    await rows.expectRefused('api_keys', FOREIGN, { organization_id: id }, { created_by: id });
  });

  it('have no restriction, end or use of their own accord (spec: API key record)', async () => {
    const { id = '' } = await rows.insert('api_keys');
    const key = await env.DB.prepare(
      `SELECT allowed_plant_ids, allowed_ips, vhost, expires_at_ms, revoked_at_ms, last_used_at_ms, state, probe_hash,
         bundle_acknowledged_at_ms FROM api_keys WHERE id = ?`,
    )
      .bind(id)
      .first();
    expect(key).toEqual({
      allowed_plant_ids: null,
      allowed_ips: '[]',
      vhost: null,
      expires_at_ms: null,
      revoked_at_ms: null,
      last_used_at_ms: null,
      state: 'active',
      probe_hash: null,
      bundle_acknowledged_at_ms: null,
    });
  });
});

describe('audit events', () => {
  it('are written once under an id, so that a repeat of a cause is no second row [C-8.4]', async () => {
    const { id = '' } = await rows.insert('audit_events');
    await rows.expectRefused('audit_events', UNIQUE, { id });
  });

  it('belong to an organization that exists, or to none [C-8.4]', async () => {
    const organizationId = rows.organization.id;
    await rows.expectTaken('audit_events', { organization_id: organizationId }, { organization_id: null });
    await rows.expectRefused('audit_events', FOREIGN, { organization_id: crypto.randomUUID() });
  });

  it('of before this migration are of keys, and nobody knows their names [C-8.4]', async () => {
    const { id = '' } = await rows.insert('audit_events');
    const row = env.DB.prepare('SELECT actor_type, actor_name, target_type FROM audit_events WHERE id = ?');
    expect(await row.bind(id).first()).toEqual({
      actor_type: 'API_KEY',
      actor_name: null,
      target_type: 'API_KEY',
    });
  });

  it.each(['event', 'actor_type', 'actor', 'target_type', 'outcome', 'created_at_ms'])(
    'have %s always [C-8.4]',
    async (column) => {
      await rows.expectRefused('audit_events', NOT_NULL, { [column]: null });
    },
  );
});

describe('changes on their way', () => {
  it('are told of once under an id, and always say to whom, when and which (worker/registry/changes.ts)', async () => {
    const { id = '' } = await rows.insert('registry_changes');
    await rows.expectRefused('registry_changes', UNIQUE, { id });
    const needed = ['organization_id', 'version', 'targets', 'due_at_ms', 'created_at_ms'];
    await rows.expectRefused('registry_changes', NOT_NULL, ...needed.map((column) => ({ [column]: null })));
  });
});
