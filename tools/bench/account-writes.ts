/**
 * What one admin can write over REST that leaves rows in D1: each kind of request, with values as long as the platform
 * accepts.
 */
import { randomUUID } from 'node:crypto';
import { LIMIT } from '../../protocol/limits.ts';
import type { AdminClient } from '../admin-client.ts';

export interface AccountWrite {
  name: string;
  /** Returns the status of the answer. */
  send(): Promise<number>;
}

interface Row {
  id: string;
}

/**
 * Length of the longest metadata that an audit row contains completely; the details of a row have at most 1
 * 024 bytes.
 */
const AUDITED_VALUE_CHARS = 190;

/** Creates the rows that the requests change. */
export async function accountWrites(admin: AdminClient, plantId: string): Promise<AccountWrite[]> {
  const organizationId = admin.organizationId ?? '';
  const device = () => ({
    name: longName(),
    serialNumber: randomUUID(),
    type: 'SENSOR',
    authMethod: 'TOKEN',
  });
  const { id: deviceId } = await admin.call<Row>('POST', '/devices', device());
  const rule = {
    metric: long(LIMIT.metricCharacters),
    severity: 'INFO',
    operator: 'GT',
    threshold: 1,
    plantId,
  };
  const { id: ruleId } = await admin.call<Row>('POST', '/alerts', { name: longName(), ...rule });
  const { data: subDevices } = await admin.call<{ data: Row[] }>('GET', `/plants/${plantId}/sub-devices`);
  const send = async (method: string, path: string, body?: unknown) =>
    (await admin.ask(method, path, body)).status;
  const patch = (path: string, body: () => object) => () => send('PATCH', path, body());
  return [
    {
      name: 'PATCH a plant',
      send: patch(`/plants/${plantId}`, () => ({ name: longName(), externalPlantId: long(64) })),
    },
    {
      name: 'PATCH a sub-device',
      send: patch(`/plants/${plantId}/sub-devices/${subDevices[0]?.id}`, () => ({ name: longName() })),
    },
    {
      name: 'PATCH an alert rule',
      send: patch(`/alerts/${ruleId}`, () => ({ name: longName(), metric: long(LIMIT.metricCharacters) })),
    },
    {
      name: 'PATCH a device, largest audit row',
      send: patch(`/devices/${deviceId}`, () => ({
        name: longName(),
        metadata: Object.fromEntries(['a', 'b', 'c', 'd'].map((name) => [name, long(AUDITED_VALUE_CHARS)])),
      })),
    },
    {
      name: 'PATCH a device, 16 KiB of metadata',
      send: patch(`/devices/${deviceId}`, () => ({ metadata: largest() })),
    },
    {
      name: 'PATCH the organization',
      send: patch(`/organizations/${organizationId}`, () => ({
        name: longName(),
        settings: { telemetryIntervalSeconds: 10, signatureHints: true, auditRetentionDays: 400 },
      })),
    },
    {
      name: 'POST an API key, which fails its test',
      send: () =>
        send('POST', '/partner/api-keys', {
          name: longName(),
          partnerId: long(100),
          scopes: ['vcp:connect'],
        }),
    },
    {
      name: 'POST a device, DELETE it',
      send: alternating(
        async () => await admin.ask<Row>('POST', '/devices', device()),
        async (id) => await send('DELETE', `/devices/${id}`),
      ),
    },
    { name: 'POST a device', send: () => send('POST', '/devices', device()) },
    {
      name: 'POST a device, 16 KiB of metadata',
      send: () => send('POST', '/devices', { ...device(), metadata: largest() }),
    },
  ];
}

/** Creates a row, and deletes it with the next request. */
function alternating(
  create: () => Promise<{ status: number; body: Row }>,
  remove: (id: string) => Promise<number>,
): () => Promise<number> {
  const made: string[] = [];
  let isCreation = false;
  return async () => {
    isCreation = !isCreation;
    const id = isCreation ? undefined : made.pop();
    if (id !== undefined) return await remove(id);
    const { status, body } = await create();
    if (status === 201) made.push(body.id);
    return status;
  };
}

/** Returns a text of this length, a different one at each call. */
function long(characters: number): string {
  return randomUUID().padEnd(characters, 'x').slice(0, characters);
}

function longName(): string {
  return long(LIMIT.nameCharacters);
}

function largest(): object {
  return { text: long(LIMIT.deviceMetadataBytes - 11) };
}
