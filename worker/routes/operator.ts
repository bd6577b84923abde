/**
 * Routes that only the operator of the deployment may call: create organizations, invite people to them, read and
 * set ceilings, and retire data keys [C-14.1], [C-14.2]. More of them are in operator-ends.ts.
 */

import * as z from 'zod';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { objectNamed } from '../../durable-objects/object-id.ts';
import { ceilings, ceilingsChange, ceilingsOf } from '../../protocol/ceilings.ts';
import { configurationCheck } from '../../protocol/configuration.ts';
import { uuid } from '../../protocol/ids.ts';
import { invitationRecord } from '../../protocol/invitation.ts';
import { memberRequest, organizationRecord, organizationRequest } from '../../protocol/organization.ts';
import { displayName, email, password, userRecord } from '../../protocol/user.ts';
import { auditRow } from '../../registry/audit-events.ts';
import { changeCeilings, organizationRecordOf } from '../../registry/organizations.ts';
import { objectsAfter, type SealedObject } from '../../registry/sealed.ts';
import { membershipsOf, registerUser, userRecordOf } from '../../registry/users.ts';
import { addressOf } from '../auth/address.ts';
import { auditEntryOf } from '../auth/audit-entry.ts';
import { turnToHash } from '../auth/hash-turn.ts';
import { hashPassword } from '../auth/password.ts';
import type { Env } from '../env.ts';
import { ApiError, conflict } from '../http/error-response.ts';
import { idParameter } from '../http/query.ts';
import { checkConfiguration } from '../lifecycle/configuration.ts';
import { announce, announceLater } from '../lifecycle/registry-change.ts';
import { sealWebhooksAgain } from '../lifecycle/webhook.ts';
import { route } from '../route.ts';
import { invite } from './identity/invitations.ts';
import { requireOrganization } from './identity/organizations.ts';

const OPERATOR = { door: 'operator' } as const;
const OBJECTS_PER_PAGE = 50;
const ceilingsAnswer = z.strictObject({ organizationId: z.string(), limits: ceilings });

export const operatorRoutes = [
  route('POST /api/v1/platform/organizations', {
    summary: 'Create an organization with its first ORG_ADMIN',
    who: OPERATOR,
    body: organizationRequest.extend({
      admin: z.strictObject({ email, name: displayName, password }),
    }),
    examples: {
      body: {
        name: 'Acme Energy',
        slug: 'acme',
        admin: { email: 'jana@example.com', name: 'Jana', password: 'correct horse battery' },
      },
    },
    answer: {
      status: 201,
      description: 'The organization, and its admin, whose address the operator vouches for',
      body: z.strictObject({ organization: organizationRecord, user: userRecord }),
    },
    errors: ['CONFLICT', 'EMAIL_ALREADY_REGISTERED'],
    handler: async (c, { body: { name, slug, admin } }) => {
      await turnToHash({ network: null, account: null });
      const now = Date.now();
      const user = { email: admin.email, name: admin.name, passwordHash: hashPassword(admin.password) };
      const made = await registerUser(
        c.env.DB,
        { ...user, provedAtMs: now },
        { name, slug },
        { address: addressOf(c), now },
        (db, id) => [
          auditRow(
            db,
            auditEntryOf(c, { organizationId: null, actor: c.get('operator') }, 'user.created', {
              type: 'USER',
              id,
            }),
            now,
          ),
        ],
      );
      if (made === 'email')
        throw new ApiError(
          'EMAIL_ALREADY_REGISTERED',
          `${admin.email} has an account: it can create the organization with POST /api/v1/organizations`,
        );
      if (made === 'slug' || !made.organization)
        throw conflict(`The slug "${slug}" is already taken: choose another one`);
      const own = await membershipsOf(c.env.DB, made.user.id);
      return {
        organization: organizationRecordOf(made.organization, null),
        user: userRecordOf(made.user, own, 'ORG_ADMIN'),
      };
    },
  }),
  route('POST /api/v1/platform/organizations/{id}/invitations', {
    summary: 'Invite a person to an organization, in any role',
    who: OPERATOR,
    params: idParameter,
    body: memberRequest,
    examples: { body: { email: 'jana@example.com', role: 'ORG_ADMIN' } },
    answer: {
      status: 201,
      description: 'The invitation. It replaces a pending one of the same address',
      body: invitationRecord,
    },
    errors: ['CONFLICT', 'ORGANIZATION_NOT_FOUND', 'TOO_MANY_REQUESTS'],
    handler: async (c, { params: { id }, body }) => {
      const { slug } = await requireOrganization(c.env.DB, id);
      return await invite(c, { organizationId: id, slug, actor: c.get('operator') }, body);
    },
  }),
  route('GET /api/v1/platform/organizations/{id}/limits', {
    summary: 'Get the ceilings of an organization',
    who: OPERATOR,
    params: idParameter,
    answer: { description: 'The ceilings', body: ceilingsAnswer },
    errors: ['ORGANIZATION_NOT_FOUND'],
    handler: async (c, { params: { id } }) => {
      const row = await requireOrganization(c.env.DB, id);
      return { organizationId: id, limits: ceilingsOf(row.ceilings) };
    },
  }),
  route('PATCH /api/v1/platform/organizations/{id}/limits', {
    summary: 'Set ceilings of an organization',
    who: OPERATOR,
    params: idParameter,
    body: ceilingsChange,
    examples: { body: { restRatePerMinute: 60_000 } },
    answer: {
      description: 'The ceilings. Settings of the organization above them are lowered',
      body: ceilingsAnswer,
    },
    errors: ['ORGANIZATION_NOT_FOUND'],
    handler: async (c, { params: { id }, body }) => {
      const row = await requireOrganization(c.env.DB, id);
      const inOrganization = { organizationId: id, actor: c.get('operator') };
      const target = { type: 'ORGANIZATION', id };
      const entry = auditEntryOf(c, inOrganization, 'organization.limits_changed', target, body);
      await announce(c, await changeCeilings(c.env.DB, row, body, entry, Date.now()));
      const changed = await requireOrganization(c.env.DB, id);
      return { organizationId: id, limits: ceilingsOf(changed.ceilings) };
    },
  }),
  route('GET /api/v1/platform/check', {
    summary: 'Check what the configuration of the deployment would make fail',
    who: OPERATOR,
    answer: {
      description: 'What cannot work, without the values of secrets, and the listeners that the bundles name',
      body: configurationCheck,
    },
    handler: (c) => checkConfiguration(c.env, Date.now()),
  }),
  route('GET /api/v1/platform/data-keys', {
    summary: 'Count the values that each data key encrypts, and encrypt those of older keys again',
    who: OPERATOR,
    query: z.object({ after: uuid.optional() }),
    answer: {
      description:
        'The counts of up to 50 objects, by version of the key; `unreadable` counts objects whose values cannot be opened. Send `next` as `after` for the following ones',
      body: z.strictObject({ versions: z.record(z.string(), z.int()), next: z.string().nullable() }),
    },
    handler: async (c, { query }) => {
      const objects = await objectsAfter(c.env.DB, query.after ?? '', OBJECTS_PER_PAGE);
      const counts = await Promise.all(objects.map((one) => sealedBy(c.env, one)));
      const keyIds = objects.filter(({ kind }) => kind === 'vhost').map(({ id }) => id);
      const ofWebhooks = await sealWebhooksAgain(c.env, keyIds, Date.now());
      for (const change of ofWebhooks.changes) announceLater(c, change);
      const versions: Record<string, number> = {};
      for (const [version, count] of [...counts, ofWebhooks.versions].flatMap((one) => Object.entries(one)))
        versions[version] = (versions[version] ?? 0) + count;
      const last = objects.length < OBJECTS_PER_PAGE ? undefined : objects.at(-1);
      return { versions, next: last?.id ?? null };
    },
  }),
];

/** An object that does not answer, or cannot open a value, counts as one `unreadable` value. */
async function sealedBy(env: Env, { kind, id }: SealedObject): Promise<Record<string, number>> {
  try {
    return kind === 'site'
      ? await objectNamed(env, 'SITE', id).sealedBy()
      : await objectNamed(env, 'VHOST', id).sealedBy();
  } catch (error) {
    console.error('object did not count its sealed values, they count as one unreadable value', {
      object: `${kind}:${id}`,
      reason: reasonOf(error),
    });
    return { unreadable: 1 };
  }
}
