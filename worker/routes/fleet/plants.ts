/** Plants [C-2.1], for members and for API keys with a plants:* scope. */
import * as z from 'zod';
import { ceilingsOf } from '../../../protocol/ceilings.ts';
import { cut } from '../../../protocol/cut.ts';
import { longPageSchema } from '../../../protocol/page.ts';
import {
  deletion,
  isExternalPlantId,
  plantChange,
  plantRecord,
  plantRequest,
} from '../../../protocol/plant-record.ts';
import { withInstants } from '../../../registry/d1.ts';
import {
  changePlant,
  createPlant,
  deletePlant,
  pagePlants,
  plantCursorOf,
} from '../../../registry/plants.ts';
import { plantNotFound, requirePlant } from '../../auth/access.ts';
import { auditEntry } from '../../auth/audit-entry.ts';
import type { Who } from '../../auth/door.ts';
import { ApiError, forbidden, limitReached } from '../../http/error-response.ts';
import { longPageOf } from '../../http/long-page.ts';
import { idParameter, longPageParameters } from '../../http/query.ts';
import { announce } from '../../lifecycle/registry-change.ts';
import { route } from '../../route.ts';

export const READS_PLANTS: Who = { door: 'member', role: 'VIEWER', scope: 'plants:read' };
export const WRITES_PLANTS: Who = { door: 'member', role: 'OPERATOR', scope: 'plants:write' };
const EXAMPLE = {
  name: 'Acme Dairy',
  externalPlantId: 'dairy-1',
  eanCons: '859182400000000001',
  eanProd: '859182400000000002',
  timezone: 'Europe/Prague',
};

export const plantRoutes = [
  route('POST /api/v1/plants', {
    summary: 'Create a plant',
    who: WRITES_PLANTS,
    body: plantRequest,
    examples: { body: EXAMPLE },
    answer: { status: 201, description: 'The plant', body: plantRecord },
    errors: ['EXTERNAL_PLANT_ID_INVALID_FORMAT', 'PLANT_ALREADY_EXISTS', 'CONFLICT', 'FORBIDDEN'],
    handler: async (c, { body }) => {
      const { organizationId, allowedPlantIds } = c.get('tenant');
      // A key that is limited to certain plants may not create one, because it could not see the new plant.
      if (allowedPlantIds)
        throw forbidden(
          'The API key is limited to certain plants and cannot create plants: use a key for all plants',
        );
      requireExternalId(body.externalPlantId);
      const now = Date.now();
      const audit = (id: string) =>
        auditEntry(c, 'plant.created', { type: 'PLANT', id }, { name: body.name });
      const made = await createPlant(c.env.DB, organizationId, body, audit, now);
      if (made === 'taken') throw taken();
      if (made === 'full')
        throw limitReached(
          'organization',
          ceilingsOf(c.get('tenant').ceilings).plants,
          'plants: delete one first',
        );
      await announce(c, made.change);
      return withInstants(made.row);
    },
  }),
  route('GET /api/v1/plants', {
    summary: 'List the plants of the organization',
    who: READS_PLANTS,
    query: z.object(longPageParameters),
    answer: {
      description: 'A page of plants, ordered by name; send `meta.next` as `before` for the next one',
      body: longPageSchema(plantRecord),
    },
    handler: async (c, { query }) => {
      const { organizationId, allowedPlantIds } = c.get('tenant');
      const found = await pagePlants(c.env.DB, organizationId, allowedPlantIds, query);
      return longPageOf(found, query, withInstants, plantCursorOf);
    },
  }),
  route('GET /api/v1/plants/{id}', {
    summary: 'Get a plant',
    who: READS_PLANTS,
    params: idParameter,
    answer: { description: 'The plant', body: plantRecord },
    errors: ['PLANT_NOT_FOUND'],
    handler: async (c, { params }) => withInstants(await requirePlant(c, params.id)),
  }),
  route('PATCH /api/v1/plants/{id}', {
    summary: 'Update a plant',
    who: WRITES_PLANTS,
    params: idParameter,
    body: plantChange,
    examples: { body: { name: 'Acme Dairy, hall 2', externalPlantId: null } },
    answer: { description: 'The plant', body: plantRecord },
    errors: ['PLANT_NOT_FOUND', 'EXTERNAL_PLANT_ID_INVALID_FORMAT', 'PLANT_ALREADY_EXISTS'],
    handler: async (c, { params, body }) => {
      const { organizationId, id } = await requirePlant(c, params.id);
      requireExternalId(body.externalPlantId);
      const audit = auditEntry(c, 'plant.updated', { type: 'PLANT', id }, { ...body });
      const change = await changePlant(c.env.DB, { organizationId, id }, body, audit, Date.now());
      if (change === 'taken') throw taken();
      if (change === 'gone') throw plantNotFound();
      await announce(c, change);
      return withInstants(await requirePlant(c, id));
    },
  }),
  route('DELETE /api/v1/plants/{id}', {
    summary: 'Delete a plant that has no devices',
    who: WRITES_PLANTS,
    params: idParameter,
    answer: { description: 'Deleted; commands that were waiting for the plant end FAILED', body: deletion },
    errors: ['PLANT_NOT_FOUND', 'PLANT_INVALID_STATE'],
    handler: async (c, { params }) => {
      const { organizationId, id, name } = await requirePlant(c, params.id);
      const audit = auditEntry(c, 'plant.deleted', { type: 'PLANT', id }, { name });
      const change = await deletePlant(c.env.DB, { organizationId, id }, audit, Date.now());
      if (change === 'devices')
        throw new ApiError('PLANT_INVALID_STATE', 'The plant has devices: delete or move them first');
      if (change === 'gone') throw plantNotFound();
      await announce(c, change);
      return { id, deleted: true as const };
    },
  }),
];

function requireExternalId(externalPlantId: string | null | undefined): void {
  if (externalPlantId == null || isExternalPlantId(externalPlantId)) return;
  throw new ApiError(
    'EXTERNAL_PLANT_ID_INVALID_FORMAT',
    `externalPlantId: "${cut(externalPlantId, 100)}" must be 1 to 64 letters, digits or characters of ._:-, and no UUID`,
  );
}

function taken(): ApiError {
  return new ApiError(
    'PLANT_ALREADY_EXISTS',
    'Another plant has this EAN or this externalPlantId: send others',
  );
}
