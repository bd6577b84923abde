/** Constraints of organizations, users, sessions, keys, audit rows and changes: the table refuses bad rows. */
import { rowsFrom, valueFrom, valuesFrom } from '#workerd/d1.ts';
import { CHECK, FOREIGN, NOT_NULL, RegistryRows, UNIQUE } from '#workerd/registry-rows.ts';
import { describe, expect, it } from '#workerd/worker-test.ts';
import { randomHex } from '#workerd/world.ts';
import { ROLES } from '../../../protocol/enums.ts';

describe('organizations', () => {
  it('a slug has 1 to 40 lower-case letters, digits and hyphens [C-1.1]', async ({ rows }) => {
    await rows.expectTaken('organizations', { slug: 'a' }, { slug: '0' }, { slug: randomHex(20) });
    const bad = ['', 'Acme', 'acme.', 'acme_x', 'a b', 'acme*', 'ačme', 'acme\n', 'acme/', 'a'.repeat(41)];
    await rows.expectRefused('organizations', CHECK, ...bad.map((slug) => ({ slug })));
    await rows.expectRefused('organizations', NOT_NULL, { slug: null });
  });

  it.for(['-hyphen-first', 'hyphen-last-'])(
    'a slug cannot begin or end with a hyphen: %s [C-1.1]',
    async (slug, { rows }) => {
      await rows.expectRefused('organizations', CHECK, { slug });
    },
  );

  it('two organizations cannot share a slug [C-1.1]', async ({ rows }) => {
    await rows.expectRefused('organizations', UNIQUE, { slug: rows.organization.slug });
  });

  it('the settings of an organization must be valid JSON (registry/schema.ts)', async ({ rows }) => {
    await rows.expectTaken('organizations', { settings: '{}' }, { settings: '{"a":[1,null]}' });
    await rows.expectRefused('organizations', CHECK, { settings: '' }, { settings: '{' }, { settings: 'x' });
    await rows.expectRefused('organizations', NOT_NULL, { settings: null });
  });

  it('an organization begins at registry version 1 (registry/schema.ts)', async ({ rows }) => {
    const { id = '' } = await rows.insert('organizations');
    expect(await valueFrom('SELECT registry_version FROM organizations WHERE id = ?', id)).toBe(1);
    await rows.expectRefused('organizations', NOT_NULL, { registry_version: null });
  });
});

describe('users', () => {
  it('an e-mail is in lower case and unique [C-1.4]', async ({ rows }) => {
    const { email = '' } = await rows.insert('users');
    await rows.expectRefused('users', UNIQUE, { email });
    await rows.expectRefused('users', CHECK, { email: 'A@example.org' }, { email: 'a@Example.org' });
    await rows.expectRefused('users', NOT_NULL, { email: null });
  });

  it('a new user needs no password, has token version 1 and is no SUPER_ADMIN [C-1.4]', async ({ rows }) => {
    const { id = '' } = await rows.insert('users');
    const sql = 'SELECT password_hash, super_admin, token_version, last_login_at_ms FROM users WHERE id = ?';
    expect(await valuesFrom(sql, id)).toEqual([null, 0, 1, null]);
  });
});

describe('sessions', () => {
  it('a session has an existing user and begins at generation 1 [C-1.4]', async ({ rows }) => {
    const { id = '' } = await rows.insert('sessions');
    const sql = 'SELECT generation, revoked_at_ms, address FROM sessions WHERE id = ?';
    expect(await valuesFrom(sql, id)).toEqual([1, null, null]);
    await rows.expectRefused('sessions', FOREIGN, { user_id: crypto.randomUUID() });
    await rows.expectRefused('sessions', UNIQUE, { id });
    await rows.expectRefused('sessions', NOT_NULL, { user_id: null }, { expires_at_ms: null });
  });
});

describe('failed logins', () => {
  it('have at most one row for an e-mail and a network, and need no user [C-1.4]', async ({ rows }) => {
    const { email = '', network = '' } = await rows.insert('login_failures');
    await rows.expectRefused('login_failures', UNIQUE, { email, network });
    await rows.expectRefused('login_failures', NOT_NULL, { failures: null }, { first_at_ms: null });
  });
});

describe('memberships', () => {
  it.for(ROLES)('a membership may have the role %s [C-1.2]', async (role, { rows }) => {
    await rows.expectTaken('memberships', { role });
  });

  it('a membership has no other role [C-1.2]', async ({ rows }) => {
    const bad = ['', 'admin', 'SUPER_ADMIN', 'OWNER', ' ADMIN'];
    await rows.expectRefused('memberships', CHECK, ...bad.map((role) => ({ role })));
    await rows.expectRefused('memberships', NOT_NULL, { role: null });
  });

  it('a user has one membership in an organization, and both must exist [C-1.2]', async ({ rows }) => {
    await rows.insert('memberships');
    await rows.expectRefused('memberships', UNIQUE, {}, { role: 'VIEWER' });
    const id = crypto.randomUUID();
    await rows.expectRefused('memberships', FOREIGN, { user_id: id }, { organization_id: id });
    const { id: user = '' } = await rows.insert('users');
    await rows.expectTaken('memberships', { user_id: user });
  });
});

describe('API keys', () => {
  it('two keys cannot share a hash, in any organization [C-5.1]', async ({ rows }) => {
    const { key_hash = '' } = await rows.insert('api_keys');
    await rows.expectRefused('api_keys', UNIQUE, { key_hash });
    const other = await RegistryRows.create();
    await other.expectRefused('api_keys', UNIQUE, { key_hash });
  });

  it.for(['name', 'partner_id'])(
    'the %s of a key has 1 to 100 characters (spec: Limits)',
    async (column, { rows }) => {
      const texts = ['x', 'x'.repeat(100), 'č'.repeat(100), '⚡'.repeat(100)];
      await rows.expectTaken('api_keys', ...texts.map((text) => ({ [column]: text })));
      await rows.expectRefused('api_keys', CHECK, { [column]: '' }, { [column]: 'x'.repeat(101) });
      await rows.expectRefused('api_keys', NOT_NULL, { [column]: null });
    },
  );

  it('the scopes of a key are a JSON array with at least one scope (spec: Scopes)', async ({ rows }) => {
    await rows.expectTaken('api_keys', { scopes: '["vcp:read","vcp:connect"]' });
    const bad = ['[]', '{}', '"vcp:read"', 'null', '1', '{"0":"vcp:read"}'];
    await rows.expectRefused('api_keys', CHECK, ...bad.map((scopes) => ({ scopes })));
    await rows.expectRefused('api_keys', /malformed JSON/, { scopes: 'vcp:read' }, { scopes: '' });
    await rows.expectRefused('api_keys', NOT_NULL, { scopes: null });
  });

  it('a key has an existing organization and creator [C-5.2]', async ({ rows }) => {
    const id = crypto.randomUUID();
    await rows.expectRefused('api_keys', FOREIGN, { organization_id: id }, { created_by: id });
  });

  it('a new key is active and unused, without limits and expiry (spec: API key record)', async ({ rows }) => {
    const { id = '' } = await rows.insert('api_keys');
    const [key] = await rowsFrom(
      `SELECT allowed_plant_ids, allowed_ips, vhost, expires_at_ms, revoked_at_ms, last_used_at_ms, state, probe_hash,
         bundle_acknowledged_at_ms FROM api_keys WHERE id = ?`,
      id,
    );
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
  it('two audit events cannot share an id [C-8.4]', async ({ rows }) => {
    const { id = '' } = await rows.insert('audit_events');
    await rows.expectRefused('audit_events', UNIQUE, { id });
  });

  it('an audit event has an existing organization or none [C-8.4]', async ({ rows }) => {
    const organizationId = rows.organization.id;
    await rows.expectTaken('audit_events', { organization_id: organizationId }, { organization_id: null });
    await rows.expectRefused('audit_events', FOREIGN, { organization_id: crypto.randomUUID() });
  });

  it('the default actor type and target type of an audit event is API_KEY [C-8.4]', async ({ rows }) => {
    const { id = '' } = await rows.insert('audit_events');
    const sql = 'SELECT actor_type, actor_name, target_type FROM audit_events WHERE id = ?';
    expect(await valuesFrom(sql, id)).toEqual(['API_KEY', null, 'API_KEY']);
  });

  it.for(['event', 'actor_type', 'actor', 'target_type', 'outcome', 'created_at_ms'])(
    'an audit event always has %s [C-8.4]',
    async (column, { rows }) => {
      await rows.expectRefused('audit_events', NOT_NULL, { [column]: null });
    },
  );
});

describe('registry changes', () => {
  it('a change must have a unique id, and none of its fields may be null (registry/changes.ts)', async ({
    rows,
  }) => {
    const { id = '' } = await rows.insert('registry_changes');
    await rows.expectRefused('registry_changes', UNIQUE, { id });
    const needed = ['organization_id', 'version', 'targets', 'due_at_ms', 'created_at_ms'];
    await rows.expectRefused('registry_changes', NOT_NULL, ...needed.map((column) => ({ [column]: null })));
  });
});
