/** Devices [C-3.1]: register, read, update, move and delete them, and read their diagnostics. */
import type { Context } from 'hono';
import * as z from 'zod';
import {
  type DeviceRecord,
  deviceChange,
  deviceDiagnostics,
  deviceRecord,
  deviceRequest,
} from '../../../protocol/device-record.ts';
import { includesRole } from '../../../protocol/enums.ts';
import { uuid } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { longPageSchema } from '../../../protocol/page.ts';
import { deletion } from '../../../protocol/plant-record.ts';
import { templateOfDevice, templatesOfPlant } from '../../../registry/device-templates.ts';
import {
  changeDevice,
  createDevice,
  type DeviceRow,
  deleteDevice,
  deviceCursorOf,
  deviceRecordOf,
  pageDevices,
} from '../../../registry/devices.ts';
import { assetTypeOfDevice } from '../../../registry/sub-devices.ts';
import {
  deviceNotFound,
  plantNotFound,
  requireDevice,
  requireDeviceAfterMove,
  requirePlant,
  requireTemplate,
  requireTemplateFor,
  templateNotFound,
} from '../../auth/access.ts';
import { auditEntry } from '../../auth/audit-entry.ts';
import type { Who } from '../../auth/door.ts';
import type { AppContext } from '../../env.ts';
import { conflict, forbidden, limitReached } from '../../http/error-response.ts';
import { longPageOf } from '../../http/long-page.ts';
import { idParameter, longPageParameters } from '../../http/query.ts';
import { forgetDevice } from '../../lifecycle/device.ts';
import { moveDevice } from '../../lifecycle/device-move.ts';
import { siteOf } from '../../lifecycle/device-site.ts';
import { announce } from '../../lifecycle/registry-change.ts';
import { templateHints } from '../../lifecycle/template-hints.ts';
import { route } from '../../route.ts';

const READS_DEVICES: Who = { door: 'member', role: 'VIEWER', scope: 'plants:read' };
const WRITES_DEVICES: Who = { door: 'member', role: 'OPERATOR', scope: 'plants:write' };
const DELETES_DEVICES: Who = { door: 'member', role: 'ADMIN', scope: 'plants:write' };
const READS_DIAGNOSTICS: Who = { door: 'member', role: 'OPERATOR', scope: 'plants:read' };
/**
 * Only users manage the credentials of a device, and suspend, reactivate or revoke it; no scope of an API key
 * allows it [C-2.6]. A device renews its MQTT token itself.
 */
export const MANAGES_DEVICES = { door: 'member', role: 'ADMIN' } as const satisfies Who;

const EXAMPLE = {
  name: 'Dairy gateway',
  serialNumber: 'GW-2025-00042',
  type: 'GATEWAY',
  authMethod: 'TOKEN',
  plantId: '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10',
};

export const deviceRoutes = [
  route('POST /api/v1/devices', {
    summary: 'Register a device',
    who: WRITES_DEVICES,
    body: deviceRequest,
    examples: { body: EXAMPLE },
    answer: {
      status: 201,
      description: 'The device, PENDING; it can connect once it is provisioned',
      body: deviceRecord,
    },
    errors: ['PLANT_NOT_FOUND', 'DEVICE_TEMPLATE_NOT_FOUND', 'CONFLICT', 'FORBIDDEN'],
    handler: async (c, { body }) => {
      const { organizationId } = c.get('tenant');
      await requireTarget(c, body.plantId);
      await requireTemplateFor(c, body.templateId, null);
      const now = Date.now();
      const { name, serialNumber, type, authMethod, plantId, templateId } = body;
      const details = { name, serialNumber, type, authMethod, plantId, ...(templateId && { templateId }) };
      const audit = (id: string) => auditEntry(c, 'device.registered', { type: 'DEVICE', id }, details);
      const made = await createDevice(c.env.DB, organizationId, body, audit, now);
      if (made === 'serial')
        throw conflict(
          `Another device has the serialNumber "${serialNumber}": check the number on the device`,
        );
      if (made === 'full')
        throw limitReached('organization', LIMIT.devicesPerOrganization, 'devices: delete one first');
      if (made === 'plant') throw plantNotFound();
      if (made === 'template') throw templateNotFound();
      await announce(c, made.change);
      return deviceRecordOf(made.row, now);
    },
  }),
  route('GET /api/v1/devices', {
    summary: 'List the devices of the organization, or of one plant',
    who: READS_DEVICES,
    query: z.object({ ...longPageParameters, plantId: uuid.optional() }),
    answer: {
      description: 'A page of devices, ordered by name; send `meta.next` as `before` for the next one',
      body: longPageSchema<DeviceRecord>(deviceRecord),
    },
    handler: async (c, { query }) => {
      const found = await pageDevices(c.env.DB, c.get('tenant'), query.plantId, query);
      const now = Date.now();
      return longPageOf(found, query, (row) => deviceRecordOf(row, now), deviceCursorOf);
    },
  }),
  route('GET /api/v1/devices/{id}', {
    summary: 'Get a device',
    who: READS_DEVICES,
    params: idParameter,
    answer: { description: 'The device', body: deviceRecord },
    errors: ['NOT_FOUND'],
    handler: async (c, { params }) => deviceRecordOf(await requireDevice(c, params.id), Date.now()),
  }),
  route('PATCH /api/v1/devices/{id}', {
    summary: 'Update a device, or move it to another plant',
    who: WRITES_DEVICES,
    params: idParameter,
    body: deviceChange,
    examples: { body: { name: 'Dairy gateway, hall 2', metadata: { firmware: '2.1.0' } } },
    answer: {
      description: 'The device. A move ends its session, and its open REST commands end FAILED',
      body: deviceRecord,
    },
    errors: [
      ...([
        'NOT_FOUND',
        'PLANT_NOT_FOUND',
        'DEVICE_TEMPLATE_NOT_FOUND',
        'DEVICE_TEMPLATE_WRONG_LEVEL',
      ] as const),
      ...(['CONFLICT', 'FORBIDDEN'] as const),
    ],
    handler: async (c, { params, body }) => {
      const device = await requireDeviceAfterMove(c, params.id);
      const { id } = device;
      const templateType = await templateTypeFor(c, id, body.templateId);
      const now = Date.now();
      const { plantId, ...rest } = body;
      const isMoved = plantId !== undefined && plantId !== device.plantId;
      if (isMoved) await requireTarget(c, plantId);
      // Moves the device first: if the move is rejected, nothing has been changed.
      if (isMoved) {
        const audit = auditEntry(
          c,
          'device.moved',
          { type: 'DEVICE', id },
          { from: device.plantId, to: plantId },
        );
        const moved = await moveDevice(c.env, device, plantId, audit, now);
        if (moved === 'linked')
          throw conflict(
            'The device cannot move to another plant while a sub-device is linked to it: unlink the sub-device first',
          );
        if (moved === 'busy')
          throw conflict(
            'Another request is moving or provisioning the device: read the device, then try again',
          );
        await announce(c, moved);
      }
      if (Object.values(rest).some((value) => value !== undefined) || !isMoved) {
        const audit = auditEntry(c, 'device.updated', { type: 'DEVICE', id }, rest);
        const here = isMoved ? { ...device, plantId } : device;
        const change = await changeDevice(c.env.DB, here, rest, templateType, audit, now);
        // The template may have been deleted, or another sub-device linked, since they were checked.
        if (typeof change === 'string') await templateTypeFor(c, id, body.templateId);
        if (change === 'gone') throw deviceNotFound();
        if (change === 'template') throw templateNotFound();
        await announce(c, change);
      }
      return deviceRecordOf(await requireDevice(c, id), now);
    },
  }),
  route('DELETE /api/v1/devices/{id}', {
    summary: 'Delete a device',
    who: DELETES_DEVICES,
    params: idParameter,
    answer: {
      description: 'Deleted; its session has ended and its credentials are destroyed',
      body: deletion,
    },
    errors: ['NOT_FOUND'],
    handler: async (c, { params }) => {
      const device = await requireDeviceAfterMove(c, params.id);
      const { id, name, serialNumber } = device;
      const audit = auditEntry(c, 'device.deleted', { type: 'DEVICE', id }, { name, serialNumber });
      await forgetDevice(c.env, device);
      const change = await deleteDevice(c.env.DB, device, audit, Date.now());
      if (change === 'gone') throw deviceNotFound();
      await announce(c, change);
      return { id, deleted: true as const };
    },
  }),
  route('GET /api/v1/devices/{id}/diagnostics', {
    summary: 'Get the diagnostics of a device',
    who: READS_DIAGNOSTICS,
    params: idParameter,
    answer: { description: 'Dropped messages and login attempts, newest first', body: deviceDiagnostics },
    errors: ['NOT_FOUND'],
    handler: async (c, { params }) => {
      const device = await requireDeviceAfterMove(c, params.id);
      const { rowsWritten: _inside, readings, ...found } = await siteOf(c.env, device).diagnostics(device.id);
      const hints = [...found.hints, ...(await hintsFromTemplates(c, device, readings))];
      const { role } = c.get('tenant');
      if (role !== null && includesRole(role, 'ADMIN')) return { ...found, hints };
      // Only admins see `expected`: the text that should have been signed contains values of the plant.
      return { ...found, hints, recent: found.recent.map(({ expected: _text, ...drop }) => drop) };
    },
  }),
];

/** The asset type of the template that the device is to get. Throws if it does not fit the device. */
async function templateTypeFor(c: Context<AppContext>, id: string, templateId: string | null | undefined) {
  if (templateId == null) return null;
  await requireTemplateFor(c, templateId, await assetTypeOfDevice(c.env.DB, id));
  return (await requireTemplate(c, templateId)).assetType;
}

async function hintsFromTemplates(
  c: Context<AppContext>,
  device: DeviceRow,
  readings: Readonly<Record<string, number>>,
): Promise<string[]> {
  const { organizationId, plantId } = device;
  const own = await templateOfDevice(c.env.DB, device);
  const bySubDevice = plantId ? await templatesOfPlant(c.env.DB, organizationId, plantId) : new Map();
  return templateHints(readings, own, bySubDevice);
}

/** Checks that the caller may put a device into this plant, or, with null, into no plant. */
async function requireTarget(c: Context<AppContext>, plantId: string | null): Promise<void> {
  if (plantId !== null) await requirePlant(c, plantId);
  else if (c.get('tenant').allowedPlantIds)
    throw forbidden(
      'The API key is limited to certain plants and cannot leave a device without a plant: set plantId to one of them',
    );
}
