/** Organizations [C-1.1]: create, list, read and update them and their settings. */
import * as z from 'zod';
import { ceilingsOf, overCeiling } from '../../../protocol/ceilings.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import {
  organizationChange,
  organizationRecord,
  organizationRequest,
} from '../../../protocol/organization.ts';
import { pageOf, pageSchema } from '../../../protocol/page.ts';
import {
  changeOrganization,
  createOrganization,
  findOrganization,
  listOrganizations,
  type OrganizationRow,
  organizationRecordOf,
} from '../../../registry/organizations.ts';
import { addressOf } from '../../auth/address.ts';
import { auditEntry } from '../../auth/audit-entry.ts';
import { ApiError, conflict, invalidBody } from '../../http/error-response.ts';
import { idParameter, pageParameters } from '../../http/query.ts';
import { announce } from '../../lifecycle/registry-change.ts';
import { route } from '../../route.ts';

export const organizationRoutes = [
  route('POST /api/v1/organizations', {
    summary: 'Create an organization; you become its ORG_ADMIN',
    who: { door: 'user' },
    body: organizationRequest,
    examples: { body: { name: 'Acme Energy', slug: 'acme' } },
    answer: { status: 201, description: 'The organization', body: organizationRecord },
    errors: ['CONFLICT'],
    handler: async (c, { body }) => {
      const { row } = c.get('user');
      const maker = { id: row.id, email: row.email, address: addressOf(c) };
      const made = await createOrganization(c.env.DB, body, maker, Date.now());
      if (made === 'slug') throw conflict(`The slug "${body.slug}" is already taken: choose another one`);
      if (made === 'full')
        throw conflict(
          `You have reached a limit of a user: ${LIMIT.organizationsMade} organizations as ORG_ADMIN, ${LIMIT.organizationsPerUser} in all`,
        );
      return organizationRecordOf(made, 'ORG_ADMIN');
    },
  }),
  route('GET /api/v1/organizations', {
    summary: 'List your organizations',
    who: { door: 'user' },
    query: z.object({ ...pageParameters, all: z.enum(['true', 'false']).optional() }),
    answer: {
      description:
        'A page of your organizations, by slug; with `all=true`, of all of them (SUPER_ADMIN only)',
      body: pageSchema(organizationRecord),
    },
    errors: ['SUPER_ADMIN_REQUIRED'],
    handler: async (c, { query }) => {
      const { row } = c.get('user');
      const all = query.all === 'true';
      if (all && !row.superAdmin)
        throw new ApiError(
          'SUPER_ADMIN_REQUIRED',
          'Only a SUPER_ADMIN may list all organizations: omit all=true',
        );
      const listed = await listOrganizations(c.env.DB, row.id, all, query);
      return pageOf(listed, query, ({ organization, role }) => organizationRecordOf(organization, role));
    },
  }),
  route('GET /api/v1/organizations/{id}', {
    summary: 'Get an organization',
    who: { door: 'organization', role: 'VIEWER' },
    params: idParameter,
    answer: { description: 'The organization', body: organizationRecord },
    handler: async (c) => await recordOf(c.env.DB, c.get('tenant')),
  }),
  route('PATCH /api/v1/organizations/{id}', {
    summary: 'Update the name and settings of an organization',
    who: { door: 'organization', role: 'ORG_ADMIN' },
    params: idParameter,
    body: organizationChange,
    examples: { body: { settings: { requireSignedCommands: true } } },
    answer: { description: 'The organization; the change is in force everywhere', body: organizationRecord },
    handler: async (c, { params, body }) => {
      const row = await requireOrganization(c.env.DB, params.id);
      const of = ceilingsOf(row.ceilings);
      const over = overCeiling(body.settings ?? {}, of);
      if (over.length > 0)
        throw invalidBody(
          ...over.map(
            (name) =>
              `settings.${name}: must be at most ${of[name]} in this organization: ask the operator to raise this ceiling`,
          ),
        );
      const target = { type: 'ORGANIZATION', id: params.id };
      const audit = auditEntry(c, 'organization.updated', target, { ...body });
      const change = await changeOrganization(c.env.DB, params.id, body, audit, Date.now());
      await announce(c, change);
      return await recordOf(c.env.DB, c.get('tenant'));
    },
  }),
];

async function recordOf(
  database: D1Database,
  { organizationId, role }: { organizationId: string; role: z.infer<typeof organizationRecord>['role'] },
) {
  return organizationRecordOf(await requireOrganization(database, organizationId), role);
}

export async function requireOrganization(database: D1Database, id: string): Promise<OrganizationRow> {
  const row = await findOrganization(database, id);
  if (!row) throw new ApiError('ORGANIZATION_NOT_FOUND', `No organization has the id ${id}: check it`);
  return row;
}
