/** Sub-devices of a plant [C-2.2]. They are the topology against which commands are checked. */
import type { Context } from 'hono';
import * as z from 'zod';
import { cut } from '../../../protocol/cut.ts';
import type { AssetType } from '../../../protocol/enums.ts';
import { uuid } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { meterExchange, meterExchangeRequest } from '../../../protocol/meter.ts';
import { pageOf, pageSchema } from '../../../protocol/page.ts';
import {
  deletion,
  isSubDeviceExternalId,
  type SubDeviceRecord,
  subDeviceChange,
  subDeviceRecord,
  subDeviceRequest,
} from '../../../protocol/plant-record.ts';
import { withInstants } from '../../../registry/d1.ts';
import { templateIdOf } from '../../../registry/device-templates.ts';
import type { SubDeviceRow } from '../../../registry/plants.ts';
import {
  changeSubDevice,
  createSubDevice,
  deleteSubDevice,
  findDeviceOf,
  findSubDevice,
  listSubDevicesOf,
  type SubDeviceRefusal,
  type Whose,
} from '../../../registry/sub-devices.ts';
import { plantNotFound, requirePlant, requireTemplateFor, templateNotFound } from '../../auth/access.ts';
import { auditEntry } from '../../auth/audit-entry.ts';
import type { Who } from '../../auth/door.ts';
import type { AppContext } from '../../env.ts';
import { ApiError, conflict, invalidBody, limitReached } from '../../http/error-response.ts';
import { idParameter, pageParameters } from '../../http/query.ts';
import { siteById } from '../../lifecycle/device-site.ts';
import { announce } from '../../lifecycle/registry-change.ts';
import { route } from '../../route.ts';
import { READS_PLANTS, WRITES_PLANTS } from './plants.ts';

const subDeviceParameters = z.object({ id: uuid, subDeviceId: uuid });

const ADMIN: Who = { door: 'member', role: 'ADMIN' };
const TEMPLATE_CODES = ['DEVICE_TEMPLATE_NOT_FOUND', 'DEVICE_TEMPLATE_WRONG_LEVEL'] as const;

export const subDeviceRoutes = [
  route('POST /api/v1/plants/{id}/sub-devices', {
    summary: 'Create a sub-device',
    who: WRITES_PLANTS,
    params: idParameter,
    body: subDeviceRequest,
    examples: {
      body: { externalId: 'BESS-1', assetType: 'BESS', name: 'Battery', ratedPowerKw: 50, capacityKwh: 100 },
    },
    answer: {
      status: 201,
      description: 'The sub-device; commands may target it from now on',
      body: subDeviceRecord,
    },
    errors: [
      ...([
        'PLANT_NOT_FOUND',
        'SUB_DEVICE_EXTERNAL_ID_INVALID',
        'SUB_DEVICE_EXTERNAL_ID_TAKEN',
        'CONFLICT',
      ] as const),
      ...TEMPLATE_CODES,
    ],
    handler: async (c, { params, body }) => {
      const whose = await whoseOf(c, params.id);
      if (!isSubDeviceExternalId(body.externalId)) {
        throw new ApiError(
          'SUB_DEVICE_EXTERNAL_ID_INVALID',
          `externalId: "${cut(body.externalId, 100)}" must be 1 to 64 letters, digits or characters of ._-`,
        );
      }
      await requireDevice(c, whose, body.linkedDeviceId, body.assetType);
      await requireTemplateFor(c, body.templateId, body.assetType);
      const audit = (id: string) =>
        auditEntry(c, 'sub_device.created', { type: 'SUB_DEVICE', id }, { plantId: whose.plantId, ...body });
      const made = await createSubDevice(c.env.DB, whose, body, audit, Date.now());
      if (typeof made === 'string') throw refusal(made);
      await announce(c, made.change);
      return subDeviceRecordOf(made.row);
    },
  }),
  route('GET /api/v1/plants/{id}/sub-devices', {
    summary: 'List the sub-devices of a plant',
    who: READS_PLANTS,
    params: idParameter,
    query: z.object(pageParameters),
    answer: {
      description: 'A page of sub-devices, ordered by external id',
      body: pageSchema(subDeviceRecord),
    },
    errors: ['PLANT_NOT_FOUND'],
    handler: async (c, { params, query }) => {
      const { plantId } = await whoseOf(c, params.id);
      return pageOf(await listSubDevicesOf(c.env.DB, plantId, query), query, subDeviceRecordOf);
    },
  }),
  route('GET /api/v1/plants/{id}/sub-devices/{subDeviceId}', {
    summary: 'Get a sub-device',
    who: READS_PLANTS,
    params: subDeviceParameters,
    answer: { description: 'The sub-device', body: subDeviceRecord },
    errors: ['PLANT_NOT_FOUND', 'SUB_DEVICE_NOT_FOUND'],
    handler: async (c, { params }) => {
      const { plantId } = await whoseOf(c, params.id);
      return subDeviceRecordOf(await requireSubDevice(c, plantId, params.subDeviceId));
    },
  }),
  route('PATCH /api/v1/plants/{id}/sub-devices/{subDeviceId}', {
    summary: 'Update a sub-device',
    who: WRITES_PLANTS,
    params: subDeviceParameters,
    body: subDeviceChange,
    examples: { body: { ratedPowerKw: 60, linkedDeviceId: null } },
    answer: {
      description: 'The sub-device; its external id and asset type cannot be changed',
      body: subDeviceRecord,
    },
    errors: ['PLANT_NOT_FOUND', 'SUB_DEVICE_NOT_FOUND', 'CONFLICT', ...TEMPLATE_CODES],
    handler: async (c, { params, body }) => {
      const whose = await whoseOf(c, params.id);
      const { id, assetType } = await requireSubDevice(c, whose.plantId, params.subDeviceId);
      await requireDevice(c, whose, body.linkedDeviceId, assetType);
      await requireTemplateFor(c, body.templateId, assetType);
      const audit = auditEntry(c, 'sub_device.updated', { type: 'SUB_DEVICE', id }, { ...body });
      const change = await changeSubDevice(c.env.DB, whose, { id, assetType }, body, audit, Date.now());
      if (typeof change === 'string') throw refusal(change);
      await announce(c, change);
      return subDeviceRecordOf(await requireSubDevice(c, whose.plantId, id));
    },
  }),
  route('DELETE /api/v1/plants/{id}/sub-devices/{subDeviceId}', {
    summary: 'Delete a sub-device',
    who: WRITES_PLANTS,
    params: subDeviceParameters,
    answer: {
      description: 'Deleted; commands that were waiting for the sub-device end FAILED',
      body: deletion,
    },
    errors: ['PLANT_NOT_FOUND', 'SUB_DEVICE_NOT_FOUND'],
    handler: async (c, { params }) => {
      const whose = await whoseOf(c, params.id);
      const { id, externalId } = await requireSubDevice(c, whose.plantId, params.subDeviceId);
      const audit = auditEntry(c, 'sub_device.deleted', { type: 'SUB_DEVICE', id }, { externalId });
      const change = await deleteSubDevice(c.env.DB, whose, id, audit, Date.now());
      if (change === 'gone') throw refusal(change);
      await announce(c, change);
      return { id, deleted: true as const };
    },
  }),
  route('POST /api/v1/plants/{id}/sub-devices/{subDeviceId}/meter-exchange', {
    summary: 'Record the exchange of a meter',
    who: ADMIN,
    params: subDeviceParameters,
    body: meterExchangeRequest,
    examples: { body: { registers: { importRegisterKwh: { value: 0.2, totalKwh: 48_210.7 } } } },
    answer: {
      description:
        'From now on each register counts from `value`, which is the total `totalKwh`. 409 if a total would fall',
      body: meterExchange,
    },
    errors: ['PLANT_NOT_FOUND', 'SUB_DEVICE_NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params, body }) => {
      const { plantId } = await whoseOf(c, params.id);
      const { id, externalId } = await requireSubDevice(c, plantId, params.subDeviceId);
      const audit = auditEntry(c, 'sub_device.meter_exchanged', { type: 'SUB_DEVICE', id }, body);
      const answer = await siteById(c.env, plantId).exchangeMeter(plantId, externalId, body, audit);
      if ('refused' in answer)
        throw conflict(
          `The total of ${answer.refused} is ${answer.totalKwh} kWh and cannot fall: send a totalKwh that is not lower`,
        );
      return { ...body, deviceId: externalId, exchangedAt: answer.exchangedAt };
    },
  }),
];

async function whoseOf(c: Context<AppContext>, plantId: string): Promise<Whose> {
  const { id, organizationId } = await requirePlant(c, plantId);
  return { organizationId, plantId: id };
}

async function requireSubDevice(c: Context<AppContext>, plantId: string, id: string): Promise<SubDeviceRow> {
  const row = await findSubDevice(c.env.DB, plantId, id);
  if (!row) throw notFound();
  return row;
}

function notFound(): ApiError {
  return new ApiError(
    'SUB_DEVICE_NOT_FOUND',
    'The plant has no sub-device with this id: list its sub-devices',
  );
}

async function requireDevice(
  c: Context<AppContext>,
  whose: Whose,
  deviceId: string | null | undefined,
  assetType: AssetType,
): Promise<void> {
  if (deviceId == null) return;
  const device = await findDeviceOf(c.env.DB, whose, deviceId);
  if (!device) throw notItsDevice();
  await requireTemplateFor(c, templateIdOf(device), assetType, 'linkedDeviceId');
}

function notItsDevice(): ApiError {
  return invalidBody('linkedDeviceId: must be the id of a device of this plant, or null');
}

function refusal(why: SubDeviceRefusal): ApiError {
  switch (why) {
    case 'external-id':
      return new ApiError(
        'SUB_DEVICE_EXTERNAL_ID_TAKEN',
        'Another sub-device of the plant has this externalId: choose another one',
      );
    case 'linked':
      return conflict('Another sub-device is linked to this device: unlink it first');
    case 'plant':
      return plantNotFound();
    case 'device':
      return notItsDevice();
    case 'template':
      return templateNotFound();
    case 'gone':
      return notFound();
    case 'full':
      return limitReached('plant', LIMIT.subDevicesPerPlant, 'sub-devices: delete one first');
  }
}

function subDeviceRecordOf({ systemTemplate, ...row }: SubDeviceRow): SubDeviceRecord {
  return { ...withInstants(row), templateId: templateIdOf({ ...row, systemTemplate }) };
}
