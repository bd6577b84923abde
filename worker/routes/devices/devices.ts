/** Devices [C-3.1]: register, read, update, move and delete them, and read their diagnostics. */
import type { Context } from 'hono';
import { z } from 'zod';
import {
  type DeviceRecord,
  deviceChange,
  deviceDiagnostics,
  deviceRecord,
  deviceRequest,
} from '../../../protocol/device-record.ts';
import { uuid } from '../../../protocol/ids.ts';
import { pageOf, pageSchema } from '../../../protocol/page.ts';
import { deletion } from '../../../protocol/plant-record.ts';
import { includesRole } from '../../../protocol/roles.ts';
import { auditEntry } from '../../auth/audit-entry.ts';
import { deviceNotFound, requireDevice, requireSettledDevice } from '../../auth/device-access.ts';
import type { Who } from '../../auth/door.ts';
import { plantNotFound, requirePlant } from '../../auth/plant-access.ts';
import type { AppContext } from '../../env.ts';
import { ApiError } from '../../http/error-response.ts';
import { idParameter, noParameters, pageParameters } from '../../http/query.ts';
import { moveDevice } from '../../lifecycle/device-move.ts';
import { siteOf } from '../../lifecycle/device-site.ts';
import { announce } from '../../lifecycle/registry-change.ts';
import { changeDevice, createDevice, deleteDevice, pageDevices } from '../../registry/devices.ts';
import { route } from '../../route.ts';
import { deviceRecordOf } from './device-record.ts';

const READS_DEVICES: Who = { door: 'member', role: 'VIEWER', scope: 'plants:read' };
const WRITES_DEVICES: Who = { door: 'member', role: 'OPERATOR', scope: 'plants:write' };
const DELETES_DEVICES: Who = { door: 'member', role: 'ADMIN', scope: 'plants:write' };
const READS_DIAGNOSTICS: Who = { door: 'member', role: 'OPERATOR', scope: 'plants:read' };
/** Only users manage credentials and lifecycle of a device; no scope of an API key allows it [C-2.6]. */
export const MANAGES_DEVICES: Who = { door: 'member', role: 'ADMIN' };

const EXAMPLE = {
  name: 'Dairy gateway',
  serialNumber: 'GW-2025-00042',
  type: 'GATEWAY',
  authMethod: 'TOKEN',
  plantId: '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10',
};

export const postDevice = route({
  method: 'POST',
  path: '/api/v1/devices',
  summary: 'Register a device',
  who: WRITES_DEVICES,
  params: noParameters,
  query: noParameters,
  body: deviceRequest,
  examples: { body: EXAMPLE },
  answer: {
    status: 201,
    description: 'The device, PENDING; it can connect once it is provisioned',
    body: deviceRecord,
  },
  errors: ['PLANT_NOT_FOUND', 'CONFLICT', 'FORBIDDEN'],
  handler: async (c, { body }) => {
    const { organizationId } = c.get('tenant');
    await requireTarget(c, body.plantId);
    const now = Date.now();
    const { name, serialNumber, type, authMethod, plantId } = body;
    const details = { name, serialNumber, type, authMethod, plantId };
    const audit = (id: string) => auditEntry(c, 'device.registered', { type: 'DEVICE', id }, details);
    const made = await createDevice(c.env.DB, organizationId, body, audit, now);
    if (made === 'serial') throw new ApiError('CONFLICT', 'Another device has this serialNumber');
    if (made === 'full') throw new ApiError('CONFLICT', 'The organization has reached its limit of devices');
    if (made === 'plant') throw plantNotFound();
    await announce(c, made.change);
    return deviceRecordOf(made.row, now);
  },
});

export const getDevices = route({
  method: 'GET',
  path: '/api/v1/devices',
  summary: 'List the devices of the organization, or of one plant',
  who: READS_DEVICES,
  params: noParameters,
  query: z.object({ ...pageParameters, plantId: uuid.optional() }),
  answer: {
    status: 200,
    description: 'A page of devices, ordered by name',
    body: pageSchema<DeviceRecord>(deviceRecord),
  },
  errors: [],
  handler: async (c, { query }) => {
    const { rows, total } = await pageDevices(c.env.DB, c.get('tenant'), query.plantId, query);
    const now = Date.now();
    return pageOf(
      rows.map((row) => deviceRecordOf(row, now)),
      total,
      { page: query.page, limit: query.limit },
    );
  },
});

export const getDevice = route({
  method: 'GET',
  path: '/api/v1/devices/{id}',
  summary: 'Get a device',
  who: READS_DEVICES,
  params: idParameter,
  query: noParameters,
  answer: { status: 200, description: 'The device', body: deviceRecord },
  errors: ['NOT_FOUND'],
  handler: async (c, { params }) => deviceRecordOf(await requireDevice(c, params.id), Date.now()),
});

export const patchDevice = route({
  method: 'PATCH',
  path: '/api/v1/devices/{id}',
  summary: 'Update a device, or move it to another plant',
  who: WRITES_DEVICES,
  params: idParameter,
  query: noParameters,
  body: deviceChange,
  examples: { body: { name: 'Dairy gateway, hall 2', metadata: { firmware: '2.1.0' } } },
  answer: {
    status: 200,
    description: 'The device. A move ends its session, and its open REST commands end FAILED',
    body: deviceRecord,
  },
  errors: ['NOT_FOUND', 'PLANT_NOT_FOUND', 'CONFLICT', 'FORBIDDEN'],
  handler: async (c, { params, body }) => {
    const device = await requireSettledDevice(c, params.id);
    const { id } = device;
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
      if (moved === 'linked') {
        throw new ApiError('CONFLICT', 'A sub-device is linked to this device: unlink it first');
      }
      if (moved === 'busy')
        throw new ApiError('CONFLICT', 'Another request is moving or provisioning the device: try again');
      await announce(c, moved);
    }
    if (Object.values(rest).some((value) => value !== undefined) || !isMoved) {
      const audit = auditEntry(c, 'device.updated', { type: 'DEVICE', id }, rest);
      const here = isMoved ? { ...device, plantId } : device;
      const change = await changeDevice(c.env.DB, here, rest, audit, now);
      if (change === 'gone') throw deviceNotFound();
      await announce(c, change);
    }
    return deviceRecordOf(await requireDevice(c, id), now);
  },
});

export const removeDevice = route({
  method: 'DELETE',
  path: '/api/v1/devices/{id}',
  summary: 'Delete a device',
  who: DELETES_DEVICES,
  params: idParameter,
  query: noParameters,
  answer: {
    status: 200,
    description: 'Deleted; its session has ended and its credentials are destroyed',
    body: deletion,
  },
  errors: ['NOT_FOUND'],
  handler: async (c, { params }) => {
    const device = await requireSettledDevice(c, params.id);
    const { id, name, serialNumber } = device;
    const audit = auditEntry(c, 'device.deleted', { type: 'DEVICE', id }, { name, serialNumber });
    await siteOf(c.env, device).forgetDevice(id);
    const change = await deleteDevice(c.env.DB, device, audit, Date.now());
    if (change === 'gone') throw deviceNotFound();
    await announce(c, change);
    return { id, deleted: true as const };
  },
});

export const getDiagnostics = route({
  method: 'GET',
  path: '/api/v1/devices/{id}/diagnostics',
  summary: 'Get the diagnostics of a device',
  who: READS_DIAGNOSTICS,
  params: idParameter,
  query: noParameters,
  answer: {
    status: 200,
    description: 'Dropped messages and login attempts, newest first',
    body: deviceDiagnostics,
  },
  errors: ['NOT_FOUND'],
  handler: async (c, { params }) => {
    const device = await requireSettledDevice(c, params.id);
    const { rowsWritten: _inside, ...affected } = await siteOf(c.env, device).diagnostics(device.id);
    const { role } = c.get('tenant');
    if (role !== null && includesRole(role, 'ADMIN')) return affected;
    // Only admins see `expected`: the text that should have been signed contains values of the plant.
    return { ...affected, recent: affected.recent.map(({ expected: _text, ...drop }) => drop) };
  },
});

/** Checks that the caller may put a device into this plant, or, with null, into no plant. */
async function requireTarget(c: Context<AppContext>, plantId: string | null): Promise<void> {
  if (plantId !== null) await requirePlant(c, plantId);
  else if (c.get('tenant').allowedPlantIds) {
    throw new ApiError(
      'FORBIDDEN',
      'An API key that is limited to certain plants must name one of them as plantId',
    );
  }
}
