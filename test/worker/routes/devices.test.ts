/** Devices over REST: registered, read and changed by members [C-3.1]. */
import { countOf, runSql } from '#workerd/d1.ts';
import { registration } from '#workerd/devices.ts';
import { describe, expect, expectError, expectInvalid, INSTANT, test, UUID } from '#workerd/worker-test.ts';
import { AUTH_METHODS, DEVICE_TYPES } from '../../../protocol/enums.ts';
import { LIMIT } from '../../../protocol/limits.ts';

/** Fields that only the platform sets, or never shows. */
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

const it = test
  .extend('post', ({ team }) => (body: unknown) => {
    return team.operator.post('/devices', body);
  })
  .extend('patch', ({ team }) => (id: string, body: unknown) => {
    return team.operator.patch(`/devices/${id}`, body);
  });

/** An object whose JSON has that many characters. */
function metadataOf(characters: number): object {
  return { a: 'x'.repeat(characters - '{"a":""}'.length) };
}

describe('POST /devices', () => {
  it('a registration makes a PENDING device and answers 201 [C-3.1]', async ({ team, plantId }) => {
    const fields = {
      name: 'Dairy gateway',
      serialNumber: 'GW-2025/00042 č',
      type: 'CONTROLLER',
      authMethod: 'TOKEN',
      metadata: { site: 'hall 2', firmware: { major: 2, beta: [true, null] } },
      plantId,
    };
    const device = await team.newDevice(fields);
    expect(device).toEqual({
      id: UUID,
      organizationId: team.id,
      ...fields,
      templateId: null,
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
    expect(await team.readDevice(device.id)).toEqual(device);
  });

  it('all fields but name, serialNumber and type have defaults (spec: Device fields)', async ({ team }) => {
    for (const type of DEVICE_TYPES) {
      const body = { name: type, serialNumber: crypto.randomUUID(), type };
      const made = await team.operator.create('/devices', body);
      expect(made).toMatchObject({
        ...body,
        authMethod: 'MTLS',
        metadata: {},
        plantId: null,
        templateId: null,
      });
    }
    for (const authMethod of AUTH_METHODS) {
      expect(await team.newDevice({ authMethod })).toMatchObject({ authMethod });
    }
  });

  it('the longest name, serialNumber and metadata are accepted (spec: Limits)', async ({ team }) => {
    const serialNumber = crypto.randomUUID().padEnd(50, 'x');
    const metadata = metadataOf(LIMIT.deviceMetadataBytes);
    const fields = { name: 'x'.repeat(100), serialNumber, metadata };
    expect(await team.newDevice(fields)).toMatchObject(fields);
    await team.newDevice({ name: 'x', serialNumber: '1' });
  });

  it('a body without a required field gets 400 (bad input: REST)', async ({ team, post }) => {
    const before = await team.totalOf('/devices');
    const bodies = [undefined, null, [], 'x', {}];
    for (const field of ['name', 'serialNumber', 'type']) {
      bodies.push(registration({ [field]: undefined }), registration({ [field]: null }));
    }
    for (const body of bodies) await expectError(await post(body), 400, 'VALIDATION_ERROR');
    expect(await team.totalOf('/devices')).toBe(before);
  });

  it('a value out of its bounds gets 400 with its field (spec: Limits)', async ({ team, post }) => {
    const before = await team.totalOf('/devices');
    const tooMuch = metadataOf(LIMIT.deviceMetadataBytes + 1);
    const bad: [string, unknown][] = [
      ...['', '  ', 'x'.repeat(101), 1].map((value): [string, unknown] => ['name', value]),
      ...['', ' ', 'x'.repeat(51), 42].map((value): [string, unknown] => ['serialNumber', value]),
      ...['', 'gateway', 'METER', 0].map((value): [string, unknown] => ['type', value]),
      ...['', 'token', 'PASSWORD', null].map((value): [string, unknown] => ['authMethod', value]),
      ...['', [], null, 1, tooMuch].map((value): [string, unknown] => ['metadata', value]),
      ...['', 'x', 1].map((value): [string, unknown] => ['plantId', value]),
    ];
    for (const [field, value] of bad)
      await expectInvalid(await post(registration({ [field]: value })), field, value);
    expect(await team.totalOf('/devices')).toBe(before);
  });

  it('fields that a client cannot set get 400 [C-3.1]', async ({ team, other, post }) => {
    const before = await team.totalOf('/devices');
    for (const field of [...NOT_TAKEN, 'constructor', 'mqttToken', 'csr']) {
      await expectError(await post(registration({ [field]: other.id })), 400, 'VALIDATION_ERROR');
    }
    const smuggled = JSON.stringify(registration()).replace('{', '{"__proto__":{"status":"ACTIVE"},');
    await expectError(await post(JSON.parse(smuggled)), 400, 'VALIDATION_ERROR');
    expect(await team.totalOf('/devices')).toBe(before);
  });

  it('a serialNumber that is taken in the organization gets 409, one of another organization does not [C-3.1]', async ({
    team,
    other,
    post,
  }) => {
    const serialNumber = crypto.randomUUID();
    await team.newDevice({ serialNumber });
    const before = await team.totalOf('/devices');
    await expectError(await post(registration({ serialNumber, type: 'SENSOR' })), 409, 'CONFLICT');
    expect(await team.totalOf('/devices')).toBe(before);
    expect(await other.newDevice({ serialNumber })).toMatchObject({ organizationId: other.id });
  });

  it('succeeds for one of concurrent registrations of a serialNumber, and the others get 409 [C-3.1]', async ({
    team,
    post,
  }) => {
    const before = await team.totalOf('/devices');
    const body = registration();
    const answers = await Promise.all([post(body), post(body), post(body)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409]);
    expect(await team.totalOf('/devices')).toBe(before + 1);
  });

  it('an organization with 100 000 devices gets 409 for one more, until it deletes one (limits: devicesPerOrganization)', async ({
    ownTeam,
  }) => {
    const { id } = await ownTeam.newDevice();
    // Each registration adds one to this number, and each deletion takes one away.
    const most = LIMIT.devicesPerOrganization;
    await runSql('UPDATE organizations SET device_count = ? WHERE id = ?', most, ownTeam.id);
    const refused = await ownTeam.operator.post('/devices', registration());
    const { message } = await expectError(refused, 409, 'CONFLICT');
    expect(message).toContain(`limit of ${most} devices`);
    expect(await countOf('devices', 'organization_id = ?', ownTeam.id)).toBe(1);
    await ownTeam.admin.remove(`/devices/${id}`);
    await ownTeam.newDevice();
    await expectError(await ownTeam.operator.post('/devices', registration()), 409, 'CONFLICT');
  });

  it('a foreign plant gets 404 like an absent one [C-1.3]', async ({ team, other, post }) => {
    const before = await team.totalOf('/devices');
    const { id: foreign } = await other.newPlant();
    for (const plantId of [foreign, crypto.randomUUID()]) {
      await expectError(await post(registration({ plantId })), 404, 'PLANT_NOT_FOUND');
    }
    expect(await team.totalOf('/devices')).toBe(before);
  });
});

describe('GET /devices/{id}', () => {
  it('the id may be in upper case; one that is no UUID gets 400 INVALID_UUID [C-10]', async ({ team }) => {
    const device = await team.newDevice();
    expect(await team.readDevice(device.id.toUpperCase())).toEqual(device);
    for (const id of ['x', device.id.slice(1), `${device.id}0`, '%00', '__proto__', "'%20OR%201=1"]) {
      await expectError(await team.viewer.call(`/devices/${id}`), 400, 'INVALID_UUID');
    }
    await expectError(await team.viewer.call(`/devices/${crypto.randomUUID()}`), 404, 'NOT_FOUND');
  });
});

describe('PATCH /devices/{id}', () => {
  it('a PATCH changes the named fields and no others [C-3.1]', async ({ team }) => {
    const device = await team.newDevice({ metadata: { a: 1, b: 2 } });
    let expected = device;
    for (const body of [{ name: 'Hall 2' }, { type: 'SENSOR' as const }, { metadata: { b: 3 } }, {}]) {
      expected = { ...expected, ...body, updatedAt: INSTANT };
      expect(await team.operator.change(`/devices/${device.id}`, body)).toEqual(expected);
    }
    const unchanged = await team.readDevice(device.id);
    expect(unchanged).toEqual(expected);
    expect(Date.parse(unchanged.updatedAt)).toBeGreaterThanOrEqual(Date.parse(device.createdAt));
    expect(unchanged.serialNumber).toBe(device.serialNumber);
  });

  it('a PATCH of other fields gets 400 and changes nothing [C-3.1]', async ({ team, patch }) => {
    const device = await team.newDevice();
    for (const field of [...NOT_TAKEN, 'serialNumber', 'authMethod', 'constructor']) {
      await expectError(await patch(device.id, { name: 'x', [field]: 'TOKEN' }), 400, 'VALIDATION_ERROR');
    }
    expect(await team.readDevice(device.id)).toEqual(device);
  });

  it('a PATCH with invalid values or null gets 400 [C-3.1]', async ({ team, patch }) => {
    const device = await team.newDevice();
    const bad = [
      { name: '' },
      { name: 'x'.repeat(101) },
      { name: null },
      { type: 'METER' },
      { type: null },
      { metadata: null },
      { metadata: [] },
      { metadata: metadataOf(LIMIT.deviceMetadataBytes + 1) },
      { plantId: 'x' },
      { plantId: '' },
    ];
    for (const body of [undefined, null, [], ...bad]) {
      await expectError(await patch(device.id, body), 400, 'VALIDATION_ERROR');
    }
    expect(await team.readDevice(device.id)).toEqual(device);
  });
});
