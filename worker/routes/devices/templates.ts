/** Device templates [C-11.6]: what a type of device reports and executes. */
import type { Context } from 'hono';
import * as z from 'zod';
import {
  type DeviceTemplateRecord,
  deviceTemplateChange,
  deviceTemplateRecord,
  deviceTemplateRequest,
  TEMPLATE_LEVELS,
} from '../../../protocol/device-template.ts';
import { ASSET_TYPES } from '../../../protocol/enums.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { pageOf, pageSchema } from '../../../protocol/page.ts';
import { deletion } from '../../../protocol/plant-record.ts';
import { systemTemplate } from '../../../protocol/system-template.ts';
import {
  changeTemplate,
  createTemplate,
  deleteTemplate,
  pageTemplates,
  usesOf,
} from '../../../registry/device-templates.ts';
import { requireTemplate, templateNotFound } from '../../auth/access.ts';
import { auditEntry } from '../../auth/audit-entry.ts';
import type { Who } from '../../auth/door.ts';
import type { AppContext } from '../../env.ts';
import { ApiError, limitReached } from '../../http/error-response.ts';
import { idParameter, pageParameters } from '../../http/query.ts';
import { route } from '../../route.ts';

const READS_TEMPLATES: Who = { door: 'member', role: 'VIEWER', scope: 'plants:read' };
/** Templates are the organization's, so a key, which may be limited to certain plants, cannot write them. */
const WRITES_TEMPLATES: Who = { door: 'member', role: 'ADMIN' };

const FIELD_CODES = {
  signals: 'DEVICE_TEMPLATE_SIGNAL_INVALID',
  actions: 'DEVICE_TEMPLATE_ACTION_INVALID',
} as const;

const EXAMPLE = {
  name: 'Acme PowerBox 50',
  assetType: 'BESS',
  manufacturer: 'Acme',
  model: 'PowerBox 50',
  signals: [
    { name: 'powerKw', label: 'Power', unit: 'kW', kind: 'GAUGE', min: -50, max: 50 },
    {
      name: 'fanState',
      label: 'Fan',
      unit: '',
      kind: 'STATE',
      states: [
        { value: 0, label: 'Off' },
        { value: 1, label: 'On' },
      ],
    },
  ],
  actions: [
    {
      action: 'REBOOT',
      label: 'Restart',
      params: { delaySeconds: { type: 'integer', unit: 's', min: 0, max: 60, required: true } },
    },
  ],
};

export const templateRoutes = [
  route('GET /api/v1/device-templates', {
    summary: 'List the device templates of the platform and of the organization',
    who: READS_TEMPLATES,
    query: z.object({
      ...pageParameters,
      level: z.enum(TEMPLATE_LEVELS).optional(),
      assetType: z.enum(ASSET_TYPES).optional(),
    }),
    answer: {
      description: 'A page of device templates: first those of the platform, then your own by name',
      body: pageSchema<DeviceTemplateRecord>(deviceTemplateRecord),
    },
    handler: async (c, { query }) => {
      const { organizationId } = c.get('tenant');
      return pageOf(await pageTemplates(c.env.DB, organizationId, query, query), query, (one) => one);
    },
  }),
  route('POST /api/v1/device-templates', {
    summary: 'Create a device template',
    who: WRITES_TEMPLATES,
    body: deviceTemplateRequest,
    fieldCodes: FIELD_CODES,
    examples: { body: EXAMPLE },
    answer: {
      status: 201,
      description: 'The device template; devices and sub-devices may have it from now on',
      body: deviceTemplateRecord,
    },
    errors: ['DEVICE_TEMPLATE_WRONG_LEVEL', 'CONFLICT'],
    handler: async (c, { body }) => {
      if (body.level === 'SYSTEM')
        throw new ApiError(
          'DEVICE_TEMPLATE_WRONG_LEVEL',
          'level: SYSTEM templates come with the platform: send ORGANIZATION, or omit level',
        );
      const { organizationId } = c.get('tenant');
      const { name, assetType } = body;
      const audit = (id: string) =>
        auditEntry(c, 'device_template.created', { type: 'DEVICE_TEMPLATE', id }, { name, assetType });
      const made = await createTemplate(c.env.DB, organizationId, body, audit, Date.now());
      if (made !== 'full') return made;
      throw limitReached(
        'organization',
        LIMIT.templatesPerOrganization,
        'device templates: delete one first',
      );
    },
  }),
  route('GET /api/v1/device-templates/{id}', {
    summary: 'Get a device template',
    who: READS_TEMPLATES,
    params: idParameter,
    answer: { description: 'The device template', body: deviceTemplateRecord },
    errors: ['DEVICE_TEMPLATE_NOT_FOUND'],
    handler: (c, { params }) => requireTemplate(c, params.id),
  }),
  route('PATCH /api/v1/device-templates/{id}', {
    summary: 'Update a device template',
    who: WRITES_TEMPLATES,
    params: idParameter,
    body: deviceTemplateChange,
    fieldCodes: FIELD_CODES,
    examples: { body: { name: 'Acme PowerBox 50, firmware 2' } },
    answer: {
      description:
        'The device template. `signals` and `actions` are replaced as a whole; commands are checked against the new ones from now on',
      body: deviceTemplateRecord,
    },
    errors: ['DEVICE_TEMPLATE_NOT_FOUND', 'DEVICE_TEMPLATE_SYSTEM_READONLY'],
    handler: async (c, { params, body }) => {
      requireOwn(params.id);
      const { organizationId } = c.get('tenant');
      const details = {
        ...body,
        ...(body.signals && { signals: body.signals.map(({ name }) => name) }),
        ...(body.actions && { actions: body.actions.map(({ action }) => action) }),
      };
      const audit = entryOf(c, 'device_template.updated', params.id, details);
      const changed = await changeTemplate(c.env.DB, organizationId, params.id, body, audit, Date.now());
      if (!changed) throw templateNotFound();
      return changed;
    },
  }),
  route('DELETE /api/v1/device-templates/{id}', {
    summary: 'Delete a device template that no device or sub-device has',
    who: WRITES_TEMPLATES,
    params: idParameter,
    answer: { description: 'Deleted', body: deletion },
    errors: ['DEVICE_TEMPLATE_NOT_FOUND', 'DEVICE_TEMPLATE_SYSTEM_READONLY', 'DEVICE_TEMPLATE_IN_USE'],
    handler: async (c, { params }) => {
      const { id } = params;
      requireOwn(id);
      const { name } = await requireTemplate(c, id);
      const { organizationId } = c.get('tenant');
      const audit = entryOf(c, 'device_template.deleted', id, { name });
      const outcome = await deleteTemplate(c.env.DB, organizationId, id, audit, Date.now());
      if (outcome === 'gone') throw templateNotFound();
      if (outcome === 'used') throw await inUse(c, id);
      return { id, deleted: true as const };
    },
  }),
];

function requireOwn(id: string): void {
  if (systemTemplate(id))
    throw new ApiError(
      'DEVICE_TEMPLATE_SYSTEM_READONLY',
      'A SYSTEM template cannot be changed or deleted: create one of your own',
    );
}

async function inUse(c: Context<AppContext>, id: string): Promise<ApiError> {
  const { devices, subDevices } = await usesOf(c.env.DB, id);
  return new ApiError(
    'DEVICE_TEMPLATE_IN_USE',
    `${devices} devices and ${subDevices} sub-devices have the template: give them another one or none first`,
  );
}

function entryOf(
  c: Context<AppContext>,
  event: 'device_template.updated' | 'device_template.deleted',
  id: string,
  details: Record<string, unknown>,
) {
  return auditEntry(c, event, { type: 'DEVICE_TEMPLATE', id }, details);
}
