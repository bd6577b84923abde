/** The operator's support session: it reads one organization for an hour, and the organization sees it [C-14.1]. */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { anonymous, bodyOf } from '#workerd/client.ts';
import { done } from '#workerd/commits.ts';
import { operator } from '#workerd/operator.ts';
import { uniqueEmail } from '#workerd/people.ts';
import { callRoute, nameOf } from '#workerd/routes.ts';
import { holdClock } from '#workerd/site-clock.ts';
import { type Team, uniqueSlug } from '#workerd/team.ts';
import { describe, expect, expectError, it, UUID } from '#workerd/worker-test.ts';
import type { AuditEvent } from '../../../protocol/audit.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { Page } from '../../../protocol/page.ts';
import type { SupportSession } from '../../../protocol/support.ts';
import { dropUnproved } from '../../../registry/unproved.ts';
import { registerUser } from '../../../registry/users.ts';
import { ROUTES } from '../../../worker/app.ts';

const REASON = 'Ticket 4711: no telemetry';

holdClock();

async function start({ id }: Team): Promise<{ id: string; headers: Record<string, string> }> {
  const path = `/platform/organizations/${id}/support`;
  const session = await operator.create<{ id: string; token: string }>(path, { reason: REASON });
  return { id: session.id, headers: { authorization: `Bearer ${session.token}` } };
}

async function sessionsOf({ id, admin }: Team): Promise<SupportSession[]> {
  return (await admin.read<Page<SupportSession>>(`/organizations/${id}/support-sessions`)).data;
}

describe('a support session', () => {
  it('can read plants, audit events and the organization, and gets 403 for a change', async ({ team }) => {
    const plant = await team.newPlant();
    const { headers } = await start(team);
    for (const path of ['/plants', `/plants/${plant.id}`, '/audit-events', `/organizations/${team.id}`])
      expect([path, (await anonymous.call(path, { headers })).status]).toEqual([path, 200]);
    expect((await anonymous.call('/plants', { headers: { ...headers, 'x-org-id': team.id } })).status).toBe(
      200,
    );
    const before = await team.viewer.read(`/plants/${plant.id}`);
    const patch = { method: 'PATCH' as const, body: { name: 'changed' }, headers };
    await expectError(await anonymous.call(`/plants/${plant.id}`, patch), 403, 'FORBIDDEN');
    expect(await team.viewer.read(`/plants/${plant.id}`)).toEqual(before);
  });

  it.for(
    ROUTES.filter(({ method, who }) => method !== 'GET' && who.door !== 'public').map(
      (route) => [nameOf(route), route] as const,
    ),
  )('gets 401 or 403 for %s', async ([, route], { team }) => {
    const { headers } = await start(team);
    const path = `/api/v1${route.path.replace(/^\/api\/v1/, '')}`
      .replace(/\{id\}/, team.id)
      .replace(/\{\w+\}/g, crypto.randomUUID());
    const response = await callRoute(route, path, headers, route.examples?.body as object | undefined);
    expect([401, 403]).toContain(response.status);
  });

  it('gets 403, 404 or 401 for another organization, for accounts and for partners’ routes', async ({
    team,
    other,
  }) => {
    const plant = await other.newPlant();
    const { headers } = await start(team);
    const foreign = { headers: { ...headers, 'x-org-id': other.id } };
    await expectError(await anonymous.call('/plants', foreign), 403, 'ORG_MEMBERSHIP_REQUIRED');
    const organization = await anonymous.call(`/organizations/${other.id}`, { headers });
    await expectError(organization, 404, 'ORGANIZATION_NOT_FOUND');
    await expectError(await anonymous.call(`/plants/${plant.id}`, { headers }), 404, 'PLANT_NOT_FOUND');
    await expectError(await anonymous.call('/auth/me', { headers }), 401, 'UNAUTHORIZED');
    await expectError(await anonymous.call('/vcp/sites', { headers }), 401, 'UNAUTHORIZED');
  });

  it('is shown to the organization with its reason, and audited each minute', async ({ ownTeam }) => {
    const { id, headers } = await start(ownTeam);
    expect(await sessionsOf(ownTeam)).toEqual([
      { id, reason: REASON, createdAt: expect.any(String), expiresAt: expect.any(String), isActive: true },
    ]);
    for (const path of ['/plants', '/devices?limit=1']) await anonymous.call(path, { headers });
    const { data } = await ownTeam.admin.read<Page<AuditEvent>>('/audit-events?limit=100');
    expect(Object.fromEntries(data.map((row) => [row.event, row]))).toMatchObject({
      'support.read': {
        actor: { type: 'SYSTEM', id: `support-${id}`, name: 'The operator (support)' },
        target: { type: 'SUPPORT_SESSION', id },
        details: {
          path: '/api/v1/devices?limit=1',
          earlier: [{ path: '/api/v1/plants' }],
        },
        count: 2,
      },
      'support.started': { details: { reason: REASON }, target: { id } },
    });
  });

  it('ends after an hour, and immediately when an ORG_ADMIN ends it', async ({ ownTeam, other }) => {
    const [first, second] = [await start(ownTeam), await start(ownTeam)];
    const path = `/organizations/${ownTeam.id}/support-sessions`;
    const ended = await bodyOf(await ownTeam.orgAdmin.delete(`${path}/${first.id}`), 200);
    expect(ended).toEqual({ id: UUID, ended: true });
    await expectError(await anonymous.call('/plants', { headers: first.headers }), 401, 'UNAUTHORIZED');
    await expectError(await ownTeam.orgAdmin.delete(`${path}/${first.id}`), 404, 'NOT_FOUND');
    const active = (await sessionsOf(ownTeam)).filter(({ isActive }) => isActive);
    expect(active.map(({ id }) => id)).toEqual([second.id]);
    const byAdmin = await ownTeam.admin.delete(`${path}/${second.id}`);
    await expectError(byAdmin, 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    const foreign = `/organizations/${other.id}/support-sessions/${second.id}`;
    await expectError(await other.orgAdmin.delete(foreign), 404, 'NOT_FOUND');
    expect((await anonymous.call('/plants', { headers: second.headers })).status).toBe(200);
    vi.setSystemTime(Date.now() + LIMIT.supportSessionMs);
    await expectError(await anonymous.call('/plants', { headers: second.headers }), 401, 'UNAUTHORIZED');
  });

  it('does not prevent that an unproved account is deleted with its organization after a week', async () => {
    const now = Date.now();
    const email = uniqueEmail();
    const slug = uniqueSlug();
    const given = { email, name: 'x', passwordHash: 'x', provedAtMs: null };
    const { organization } = done(
      await registerUser(env.DB, given, { name: slug, slug }, { address: null, now }),
    );
    const path = `/platform/organizations/${organization?.id}`;
    await operator.create(`${path}/support`, { reason: REASON });
    await operator.create(`${path}/invitations`, { email: uniqueEmail(), role: 'VIEWER' });
    await dropUnproved(env.DB, now + LIMIT.unprovedAccountMs, 1_000);
    const left = (table: string, column: string, value: string) =>
      env.DB.prepare(`SELECT count(*) AS n FROM ${table} WHERE ${column} = ?`).bind(value).first<number>('n');
    expect([await left('users', 'email', email), await left('organizations', 'slug', slug)]).toEqual([0, 0]);
  });

  it('gets 401 with an unknown token', async () => {
    const headers = { authorization: `Bearer support_${'A'.repeat(43)}` };
    await expectError(await anonymous.call('/plants', { headers }), 401, 'UNAUTHORIZED');
  });
});
