/** Devices over REST: registered, read and changed by members [C-3.1]. */
import { beforeAll, describe, expect, it } from 'vitest';
import { AUTH_METHODS, DEVICE_TYPES } from '../../../protocol/enums.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { Page } from '../../../protocol/page.ts';
import { postDevice, readDevice, registration } from '../../support/workerd/devices.ts';
import { postPlant } from '../../support/workerd/fleet.ts';
import { createTeam, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';

const UUID = expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
const INSTANT = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
/** What nobody but the platform says of a device, and what it never says. */
const NOT_TAKEN = [
  'id',
  'organizationId',
  'status',
  'connectionStatus',
  'lastSeenAt',
  'provisionedAt',
  'suspendedAt',
  'suspendReason',
  'tokenExpiresAt',
  'hmacRotation',
  'hmacSecret',
  'createdAt',
  'updatedAt',
];

let team: Team;
let other: Team;

beforeAll(async () => {
  [team, other] = await Promise.all([createTeam(), createTeam()]);
});

function post(body: unknown, by = team.operator): Promise<Response> {
  return by.call('/devices', { method: 'POST', body });
}

function patch(id: string, body: unknown): Promise<Response> {
  return team.operator.call(`/devices/${id}`, { method: 'PATCH', body });
}

async function total(by = team.viewer): Promise<number> {
  return (await by.read<Page<object>>('/devices')).meta.total;
}

/** An object whose JSON has so many characters. */
function metadataOf(characters: number): object {
  return { a: 'x'.repeat(characters - '{"a":""}'.length) };
}

describe('POST /devices', () => {
  it('makes a PENDING device of the organization, and answers 201 with its record [C-3.1]', async () => {
    const { id: plantId } = await postPlant(team.operator);
    const fields = {
      name: 'Dairy gateway',
      serialNumber: 'GW-2025/00042 č',
      type: 'CONTROLLER',
      authMethod: 'TOKEN',
      metadata: { site: 'hall 2', firmware: { major: 2, beta: [true, null] } },
      plantId,
    };
    const device = await postDevice(team.operator, fields);
    expect(device).toEqual({
      id: UUID,
      organizationId: team.id,
      ...fields,
      status: 'PENDING',
      connectionStatus: 'UNKNOWN',
      lastSeenAt: null,
      provisionedAt: null,
      suspendedAt: null,
      suspendReason: null,
      tokenExpiresAt: null,
      hmacRotation: null,
      createdAt: INSTANT,
      updatedAt: device.createdAt,
    });
    expect(await readDevice(team, device.id)).toEqual(device);
  });

  it('asks for name, serialNumber and type: the rest is MTLS, no metadata, no plant (spec: Device fields)', async () => {
    for (const type of DEVICE_TYPES) {
      const body = { name: type, serialNumber: crypto.randomUUID(), type };
      const made = await team.operator.read('/devices', { method: 'POST', body }, 201);
      expect(made).toMatchObject({ ...body, authMethod: 'MTLS', metadata: {}, plantId: null });
    }
    for (const authMethod of AUTH_METHODS) {
      expect(await postDevice(team.operator, { authMethod })).toMatchObject({ authMethod });
    }
  });

  it('takes a name of 100 characters, a serialNumber of 50 and metadata up to its limit (spec: Limits)', async () => {
    const serialNumber = crypto.randomUUID().padEnd(50, 'x');
    const metadata = metadataOf(LIMIT.deviceMetadataCharacters);
    const fields = { name: 'x'.repeat(100), serialNumber, metadata };
    expect(await postDevice(team.operator, fields)).toMatchObject(fields);
    await postDevice(team.operator, { name: 'x', serialNumber: '1' });
  });

  it('refuses a body that is none, or lacks a field that it needs: nothing is made (bad input: REST)', async () => {
    const before = await total();
    const bodies = [undefined, null, [], 'x', {}];
    for (const field of ['name', 'serialNumber', 'type']) {
      bodies.push(registration({ [field]: undefined }), registration({ [field]: null }));
    }
    for (const body of bodies) await expectError(await post(body), 400, 'VALIDATION_ERROR');
    expect(await total()).toBe(before);
  });

  it('refuses a value out of its bounds, and names the field: nothing is made (spec: Limits)', async () => {
    const before = await total();
    const bad: [string, unknown][] = [
      ...['', ' \t', 'x'.repeat(101), 1].map((value): [string, unknown] => ['name', value]),
      ...['', ' ', 'x'.repeat(51), 42].map((value): [string, unknown] => ['serialNumber', value]),
      ...['', 'gateway', 'METER', 0].map((value): [string, unknown] => ['type', value]),
      ...['', 'token', 'PASSWORD', null].map((value): [string, unknown] => ['authMethod', value]),
      ...['', [], null, 1, metadataOf(LIMIT.deviceMetadataCharacters + 1)].map((value): [string, unknown] => [
        'metadata',
        value,
      ]),
      ...['', 'x', 1].map((value): [string, unknown] => ['plantId', value]),
    ];
    for (const [field, value] of bad) {
      const response = await post(registration({ [field]: value }));
      const { details } = await expectError(response, 400, 'VALIDATION_ERROR');
      expect([field, value, details]).toEqual([field, value, [expect.stringContaining(`${field}: `)]]);
    }
    expect(await total()).toBe(before);
  });

  it('refuses what a registration may not say: nothing is made [C-3.1]', async () => {
    const before = await total();
    for (const field of [...NOT_TAKEN, 'constructor', 'mqttToken', 'csr']) {
      await expectError(await post(registration({ [field]: other.id })), 400, 'VALIDATION_ERROR');
    }
    const smuggled = JSON.parse(
      JSON.stringify(registration()).replace('{', '{"__proto__":{"status":"ACTIVE"},'),
    );
    await expectError(await post(smuggled), 400, 'VALIDATION_ERROR');
    expect(await total()).toBe(before);
  });

  it('refuses a serialNumber that another device of the organization has: 409, and none is counted [C-3.1]', async () => {
    const serialNumber = crypto.randomUUID();
    await postDevice(team.operator, { serialNumber });
    const before = await total();
    await expectError(await post(registration({ serialNumber, type: 'SENSOR' })), 409, 'CONFLICT');
    expect(await total()).toBe(before);
    expect(await postDevice(other.operator, { serialNumber })).toMatchObject({ organizationId: other.id });
  });

  it('lets one of several win that want the same serialNumber at once [C-3.1]', async () => {
    const before = await total();
    const body = registration();
    const answers = await Promise.all([post(body), post(body), post(body)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409]);
    expect(await total()).toBe(before + 1);
  });

  it('answers a plant of another organization as one that is nowhere [C-1.3]', async () => {
    const before = await total();
    const { id: foreign } = await postPlant(other.operator);
    for (const plantId of [foreign, crypto.randomUUID()]) {
      await expectError(await post(registration({ plantId })), 404, 'PLANT_NOT_FOUND');
    }
    expect(await total()).toBe(before);
  });
});

describe('GET /devices/{id}', () => {
  it('takes the id in either case, and refuses what is no UUID: 400 INVALID_UUID [C-10]', async () => {
    const device = await postDevice(team.operator);
    expect(await readDevice(team, device.id.toUpperCase())).toEqual(device);
    for (const id of ['x', device.id.slice(1), `${device.id}0`, '%00', '__proto__', "'%20OR%201=1"]) {
      await expectError(await team.viewer.call(`/devices/${id}`), 400, 'INVALID_UUID');
    }
    await expectError(await team.viewer.call(`/devices/${crypto.randomUUID()}`), 404, 'NOT_FOUND');
  });
});

describe('PATCH /devices/{id}', () => {
  it('changes what it names, and leaves the rest [C-3.1]', async () => {
    const device = await postDevice(team.operator, { metadata: { a: 1, b: 2 } });
    let expected = device;
    for (const body of [{ name: 'Hall 2' }, { type: 'SENSOR' as const }, { metadata: { b: 3 } }, {}]) {
      expected = { ...expected, ...body, updatedAt: INSTANT };
      expect(await team.operator.read(`/devices/${device.id}`, { method: 'PATCH', body })).toEqual(expected);
    }
    const kept = await readDevice(team, device.id);
    expect(kept).toEqual(expected);
    expect(Date.parse(kept.updatedAt)).toBeGreaterThanOrEqual(Date.parse(device.createdAt));
    expect(kept.serialNumber).toBe(device.serialNumber);
  });

  it('refuses what it may not change, and changes nothing by it [C-3.1]', async () => {
    const device = await postDevice(team.operator);
    for (const field of [...NOT_TAKEN, 'serialNumber', 'authMethod', 'constructor']) {
      await expectError(await patch(device.id, { name: 'x', [field]: 'TOKEN' }), 400, 'VALIDATION_ERROR');
    }
    expect(await readDevice(team, device.id)).toEqual(device);
  });

  it('refuses values that a registration refuses, and null where nothing may be missing [C-3.1]', async () => {
    const device = await postDevice(team.operator);
    const bad = [
      { name: '' },
      { name: 'x'.repeat(101) },
      { name: null },
      { type: 'METER' },
      { type: null },
      { metadata: null },
      { metadata: [] },
      { metadata: metadataOf(LIMIT.deviceMetadataCharacters + 1) },
      { plantId: 'x' },
      { plantId: '' },
    ];
    for (const body of [undefined, null, [], ...bad]) {
      await expectError(await patch(device.id, body), 400, 'VALIDATION_ERROR');
    }
    expect(await readDevice(team, device.id)).toEqual(device);
  });

  it('changes nothing at all where the plant that it names is not there [C-3.1]', async () => {
    const device = await postDevice(team.operator);
    const { id: foreign } = await postPlant(other.operator);
    for (const plantId of [foreign, crypto.randomUUID()]) {
      await expectError(await patch(device.id, { name: 'x', plantId }), 404, 'PLANT_NOT_FOUND');
    }
    expect(await readDevice(team, device.id)).toEqual(device);
  });
});
