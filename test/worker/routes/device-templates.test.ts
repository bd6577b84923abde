/** Device templates over REST, and what they change for devices, sub-devices, commands and diagnostics [C-11.6]. */
import { env } from 'cloudflare:workers';
import { auditOf } from '#workerd/commits.ts';
import { runSql } from '#workerd/d1.ts';
import { connect } from '#workerd/devices.ts';
import { sendTelemetry } from '#workerd/site-devices.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, expectError, expectSameError, it, UUID } from '#workerd/worker-test.ts';
import type { DeviceTemplateRecord } from '../../../protocol/device-template.ts';
import { ASSET_TYPES } from '../../../protocol/enums.ts';
import type { Page } from '../../../protocol/page.ts';
import { SYSTEM_TEMPLATES, systemTemplateId } from '../../../protocol/system-template.ts';
import { changeDevice, createDevice, findDevice } from '../../../registry/devices.ts';
import { changeSubDevice, createSubDevice } from '../../../registry/sub-devices.ts';

const REBOOT = {
  action: 'REBOOT',
  label: 'Restart',
  params: { delaySeconds: { type: 'integer', unit: 's', min: 0, max: 60, required: true } },
};
const POWER = { name: 'powerKw', label: 'Power', unit: 'kW', kind: 'GAUGE', min: -50, max: 50 };
const BATTERY = {
  name: 'PowerBox 50',
  assetType: 'BESS',
  manufacturer: 'Acme',
  model: 'PB50',
  signals: [POWER],
  actions: [REBOOT],
};
const ABSENT = 'ffffffff-ffff-4fff-8fff-ffffffffffff';
const BESS = systemTemplateId('BESS');

async function list(team: Team, query = ''): Promise<Page<DeviceTemplateRecord>> {
  return await team.viewer.read(`/device-templates${query}`);
}

describe('GET, POST, PATCH and DELETE /device-templates', () => {
  it('an ADMIN creates, changes and deletes a template, and the audit log has each step [C-11.6]', async ({
    team,
  }) => {
    const made = await team.newTemplate(BATTERY);
    expect(made).toEqual({
      id: UUID,
      level: 'ORGANIZATION',
      ...BATTERY,
      createdAt: expect.stringMatching(/Z$/),
      updatedAt: made.createdAt,
    });
    const path = `/device-templates/${made.id}`;
    expect(await team.viewer.read(path)).toEqual(made);
    const changed = await team.admin.change<DeviceTemplateRecord>(path, { model: null, signals: [] });
    expect(changed).toEqual({ ...made, model: null, signals: [], updatedAt: changed.updatedAt });
    expect(await team.admin.read(path, { method: 'DELETE' })).toEqual({ id: made.id, deleted: true });
    await expectError(await team.viewer.call(path), 404, 'DEVICE_TEMPLATE_NOT_FOUND');
    const events = (await team.eventsAbout(made.id)).map(({ event, target }) => [event, target?.type]);
    expect(events).toEqual(
      ['deleted', 'updated', 'created'].map((what) => [`device_template.${what}`, 'DEVICE_TEMPLATE']),
    );
  });

  it('only an ADMIN writes templates, and no API key does [C-11.6]', async ({ team }) => {
    const refused = await team.operator.post('/device-templates', BATTERY);
    await expectError(refused, 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    const key = await team.newKey(['plants:read', 'plants:write']);
    await expectError(await key.post('/device-templates', BATTERY), 401, 'UNAUTHORIZED');
    expect((await key.read<Page<unknown>>('/device-templates')).meta.total).toBeGreaterThanOrEqual(8);
  });

  it('a list begins with the templates of the platform, and pages go on with the own ones by name [C-11.6]', async ({
    ownTeam: team,
  }) => {
    const names = ['a', 'b', 'c'];
    for (const name of names.toReversed()) await team.newTemplate({ name });
    const all = [...SYSTEM_TEMPLATES.map(({ name }) => name), ...names];
    for (const limit of [1, 3, 8, 20]) {
      const shown: string[] = [];
      for (let page = 1; shown.length < all.length; page++) {
        const { data, meta } = await list(team, `?page=${page}&limit=${limit}`);
        expect(meta).toEqual({ page, limit, total: all.length, totalPages: Math.ceil(all.length / limit) });
        expect(data.length).toBe(Math.min(limit, all.length - shown.length));
        shown.push(...data.map(({ name }) => name));
      }
      expect(shown).toEqual(all);
    }
    const totals = [
      'level=SYSTEM',
      'level=ORGANIZATION',
      'assetType=BESS',
      'assetType=FVE',
      'level=SYSTEM&assetType=FVE',
    ];
    const found = await Promise.all(totals.map(async (query) => (await list(team, `?${query}`)).data.length));
    expect(found).toEqual([8, 3, 4, 1, 1]);
    await expectError(await team.viewer.call('/device-templates?level=OWN'), 400, 'VALIDATION_ERROR');
  });

  it('a template of the platform cannot be changed, deleted or created [C-11.6]', async ({ team }) => {
    for (const assetType of ASSET_TYPES) {
      const path = `/device-templates/${systemTemplateId(assetType)}`;
      expect(await team.viewer.read(path)).toMatchObject({ level: 'SYSTEM', assetType, createdAt: null });
      for (const [method, body] of [
        ['PATCH', { name: 'Mine' }],
        ['DELETE', undefined],
      ] as const) {
        const answer = await team.admin.call(path, { method, ...(body && { body }) });
        await expectError(answer, 403, 'DEVICE_TEMPLATE_SYSTEM_READONLY');
      }
    }
    const made = await team.admin.post('/device-templates', { ...BATTERY, level: 'SYSTEM' });
    await expectError(made, 400, 'DEVICE_TEMPLATE_WRONG_LEVEL');
  });

  it.for([
    ['a malformed signal', { signals: [{ ...POWER, kind: 'LEVEL' }] }, 'DEVICE_TEMPLATE_SIGNAL_INVALID'],
    ['a signal twice', { signals: [POWER, POWER] }, 'DEVICE_TEMPLATE_SIGNAL_INVALID'],
    [
      '201 signals',
      { signals: Array.from({ length: 201 }, (_, index) => ({ ...POWER, name: `s${index}` })) },
      'DEVICE_TEMPLATE_SIGNAL_INVALID',
    ],
    ['signals that are no list', { signals: {} }, 'DEVICE_TEMPLATE_SIGNAL_INVALID'],
    ['a malformed action', { actions: [{ ...REBOOT, action: 'reboot' }] }, 'DEVICE_TEMPLATE_ACTION_INVALID'],
    ['an action twice', { actions: [REBOOT, REBOOT] }, 'DEVICE_TEMPLATE_ACTION_INVALID'],
    [
      '65 actions',
      { actions: Array.from({ length: 65 }, (_, index) => ({ action: `A${index}`, label: 'A' })) },
      'DEVICE_TEMPLATE_ACTION_INVALID',
    ],
    ['a wrong signal and a blank name', { signals: [{}], name: ' ' }, 'DEVICE_TEMPLATE_SIGNAL_INVALID'],
    ['a blank name', { name: ' ' }, 'VALIDATION_ERROR'],
    ['an unknown field', { colour: 'red' }, 'VALIDATION_ERROR'],
  ] as const)('%s gets 400, in a POST and in a PATCH [C-11.6]', async ([, fields, code], { team }) => {
    const { id } = await team.newTemplate(BATTERY);
    const { total } = (await list(team)).meta;
    await expectError(await team.admin.post('/device-templates', { ...BATTERY, ...fields }), 400, code);
    const patched = await team.admin.call(`/device-templates/${id}`, { method: 'PATCH', body: fields });
    const { details } = await expectError(patched, 400, code);
    expect(details).not.toHaveLength(0);
    expect((await list(team)).meta.total).toBe(total);
    expect(await team.viewer.read(`/device-templates/${id}`)).toMatchObject(BATTERY);
  });

  it('the asset type of a template cannot be changed [C-11.6]', async ({ team }) => {
    const { id } = await team.newTemplate(BATTERY);
    const answer = await team.admin.call(`/device-templates/${id}`, {
      method: 'PATCH',
      body: { assetType: 'FVE' },
    });
    await expectError(answer, 400, 'VALIDATION_ERROR');
  });

  it('an organization has 200 templates, and the 201st gets 409 [C-11.6]', async ({ ownTeam: team }) => {
    const first = await team.newTemplate(BATTERY);
    await runSql(
      `INSERT INTO device_templates SELECT substr(id, 1, 32) || printf('%04d', value), organization_id, name,
        asset_type, manufacturer, model, signals, actions, created_at_ms, updated_at_ms
        FROM device_templates, (WITH RECURSIVE n (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 198)
          SELECT value FROM n) WHERE id = ?`,
      first.id,
    );
    // Of requests at the same time, as many succeed as there is room for.
    const made = await Promise.all(
      Array.from({ length: 8 }, () => team.admin.post('/device-templates', BATTERY)),
    );
    expect(made.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 7 }, () => 409)]);
    await expectError(await team.admin.post('/device-templates', BATTERY), 409, 'CONFLICT');
    await team.admin.read(`/device-templates/${first.id}`, { method: 'DELETE' });
    await team.newTemplate({ name: 'instead' });
    expect((await list(team, '?level=ORGANIZATION&page=2&limit=100')).data).toHaveLength(100);
  });

  it('another organization gets the same 404 for a template as for none [C-1.3]', async ({ team, other }) => {
    const { id } = await team.newTemplate(BATTERY);
    for (const method of ['GET', 'PATCH', 'DELETE'] as const) {
      const body = method === 'PATCH' ? { body: { name: 'Taken' } } : {};
      const foreign = await other.admin.call(`/device-templates/${id}`, { method, ...body });
      const absent = await other.admin.call(`/device-templates/${ABSENT}`, { method, ...body });
      await expectSameError([foreign, absent], 404, 'DEVICE_TEMPLATE_NOT_FOUND');
    }
    expect((await list(other)).data.map((one) => one.id)).not.toContain(id);
  });
});

describe('devices and sub-devices with a template', () => {
  it('may have one of the platform or of the organization, and lose it again [C-11.6]', async ({
    team,
    plantId,
  }) => {
    const { id: templateId } = await team.newTemplate(BATTERY);
    const device = await team.newDevice({ templateId });
    expect(device.templateId).toBe(templateId);
    const path = `/devices/${device.id}`;
    expect(await team.operator.change(path, { templateId: BESS })).toMatchObject({ templateId: BESS });
    expect(await team.operator.change(path, { name: 'Renamed' })).toMatchObject({ templateId: BESS });
    expect(await team.operator.change(path, { templateId: null })).toMatchObject({ templateId: null });
    const asset = await team.newSubDevice(plantId, { templateId: BESS });
    expect(asset.templateId).toBe(BESS);
    const assetPath = `/plants/${plantId}/sub-devices/${asset.id}`;
    expect(await team.operator.change(assetPath, { templateId })).toMatchObject({ templateId });
    expect(await team.operator.change(assetPath, { ratedPowerKw: 5 })).toMatchObject({ templateId });
    expect(await team.operator.change(assetPath, { templateId: null })).toMatchObject({ templateId: null });
  });

  it('an unknown or foreign template gets 404, and nothing is registered or changed [C-11.6]', async ({
    team,
    other,
    plantId,
  }) => {
    const { id: foreign } = await other.newTemplate(BATTERY);
    const { id } = await team.newDevice();
    const asset = await team.newSubDevice(plantId);
    for (const templateId of [foreign, ABSENT]) {
      const serialNumber = crypto.randomUUID();
      const device = { name: 'D', serialNumber, type: 'GATEWAY', templateId };
      const sub = { externalId: 'BESS-2', assetType: 'BESS', name: 'B', templateId };
      const attempts = [
        team.operator.post('/devices', device),
        team.operator.call(`/devices/${id}`, { method: 'PATCH', body: { name: 'Changed', templateId } }),
        team.operator.post(`/plants/${plantId}/sub-devices`, sub),
        team.operator.call(`/plants/${plantId}/sub-devices/${asset.id}`, {
          method: 'PATCH',
          body: { name: 'Changed', templateId },
        }),
      ];
      for (const answer of await Promise.all(attempts))
        await expectError(answer, 404, 'DEVICE_TEMPLATE_NOT_FOUND');
    }
    expect((await team.readDevice(id)).name).toBe('Device');
    expect(
      (await team.viewer.read<Page<{ name: string }>>(`/plants/${plantId}/sub-devices`)).data,
    ).toHaveLength(1);
  });

  it('a template for another asset type gets 400 that names both types [C-11.6]', async ({
    team,
    plantId,
  }) => {
    const FVE = systemTemplateId('FVE');
    const gateway = await team.newDevice({ plantId, type: 'SENSOR' });
    const sub = { externalId: 'BESS-1', assetType: 'BESS', name: 'B' };
    const subPath = `/plants/${plantId}/sub-devices`;
    const wrong = async (answer: Promise<Response>) => {
      const { message } = await expectError(await answer, 400, 'DEVICE_TEMPLATE_WRONG_LEVEL');
      expect(message).toMatch(/FVE.*BESS/);
    };
    await wrong(team.operator.post(subPath, { ...sub, templateId: FVE }));
    const asset = await team.newSubDevice(plantId, { linkedDeviceId: gateway.id });
    await wrong(team.operator.call(`${subPath}/${asset.id}`, { method: 'PATCH', body: { templateId: FVE } }));
    // A device has the type of the asset that is linked to it.
    await wrong(team.operator.call(`/devices/${gateway.id}`, { method: 'PATCH', body: { templateId: FVE } }));
    const second = await team.newDevice({ plantId, type: 'SENSOR', templateId: FVE });
    await wrong(
      team.operator.call(`${subPath}/${asset.id}`, { method: 'PATCH', body: { linkedDeviceId: second.id } }),
    );
    await team.operator.change(`/devices/${gateway.id}`, { templateId: BESS });
  });

  it('a template that a device or sub-device has cannot be deleted: 409 says how many [C-11.6]', async ({
    team,
    plantId,
  }) => {
    const { id } = await team.newTemplate(BATTERY);
    const device = await team.newDevice({ templateId: id });
    const asset = await team.newSubDevice(plantId, { templateId: id });
    const remove = () => team.admin.call(`/device-templates/${id}`, { method: 'DELETE' });
    const { message } = await expectError(await remove(), 409, 'DEVICE_TEMPLATE_IN_USE');
    expect(message).toMatch(/^1 devices and 1 sub-devices/);
    await team.operator.change(`/devices/${device.id}`, { templateId: BESS });
    await expectError(await remove(), 409, 'DEVICE_TEMPLATE_IN_USE');
    await team.operator.read(`/plants/${plantId}/sub-devices/${asset.id}`, { method: 'DELETE' });
    expect((await remove()).status).toBe(200);
    // No event says that it was deleted before it was.
    const events = (await team.eventsAbout(id)).map(({ event }) => event);
    expect(events).toEqual(['device_template.deleted', 'device_template.created']);
  });

  it('make exactly one of a registration and a deletion of its template at once succeed [C-11.6]', async ({
    team,
  }) => {
    for (let round = 0; round < 5; round++) {
      const { id: templateId } = await team.newTemplate(BATTERY);
      const serialNumber = crypto.randomUUID();
      const [made, gone] = await Promise.all([
        team.operator.post('/devices', { name: 'D', serialNumber, type: 'SENSOR', templateId }),
        team.admin.call(`/device-templates/${templateId}`, { method: 'DELETE' }),
      ]);
      if (made.status === 201) await expectError(gone, 409, 'DEVICE_TEMPLATE_IN_USE');
      else await expectError(made, 404, 'DEVICE_TEMPLATE_NOT_FOUND');
    }
  });

  it('a template that was deleted since it was checked is not written [C-11.6]', async ({
    team,
    plantId,
  }) => {
    const { id: templateId } = await team.newTemplate(BATTERY);
    await team.admin.read(`/device-templates/${templateId}`, { method: 'DELETE' });
    const now = Date.now();
    const entry = (
      event: 'device.registered' | 'device.updated' | 'sub_device.created' | 'sub_device.updated',
    ) => auditOf(team.organization, event, 'DEVICE');
    const device = {
      name: 'D',
      serialNumber: crypto.randomUUID(),
      type: 'SENSOR',
      authMethod: 'TOKEN',
    } as const;
    const request = { ...device, metadata: {}, plantId, templateId };
    expect(await createDevice(env.DB, team.id, request, entry('device.registered'), now)).toBe('template');
    const { id } = await team.newDevice({ plantId });
    const row = await findDevice(env.DB, team.id, id);
    if (!row) throw new Error('the device is not there');
    const changed = changeDevice(env.DB, row, { templateId }, 'BESS', entry('device.updated')(id), now);
    expect(await changed).toBe('template');
    const whose = { organizationId: team.id, plantId };
    const sub = { externalId: 'BESS-9', assetType: 'BESS', name: 'B', templateId } as const;
    expect(await createSubDevice(env.DB, whose, sub, entry('sub_device.created'), now)).toBe('template');
    const { id: subId } = await team.newSubDevice(plantId);
    const asset = { id: subId, assetType: 'BESS' } as const;
    const update = changeSubDevice(
      env.DB,
      whose,
      asset,
      { templateId },
      entry('sub_device.updated')(subId),
      now,
    );
    expect(await update).toBe('template');
  });

  it('make at most one of a link and a template for another asset type at once be written [C-11.6]', async ({
    team,
    plantId,
  }) => {
    for (let round = 0; round < 5; round++) {
      const { id } = await team.newDevice({ plantId, type: 'SENSOR' });
      const sub = { externalId: `BESS-${round}`, assetType: 'BESS', name: 'B', linkedDeviceId: id };
      const [changed, linked] = await Promise.all([
        team.operator.call(`/devices/${id}`, {
          method: 'PATCH',
          body: { templateId: systemTemplateId('FVE') },
        }),
        team.operator.post(`/plants/${plantId}/sub-devices`, sub),
      ]);
      expect([changed.status, linked.status].filter((status) => status < 300)).toHaveLength(1);
    }
  });
});

describe('commands to a device with a template', () => {
  it('must be actions of the template with valid parameters [C-11.6]', async ({ team }) => {
    const { id: templateId } = await team.newTemplate(BATTERY);
    const { id } = await team.newTokenDevice({ templateId });
    await team.command(id, { action: 'REBOOT', payload: { delaySeconds: 60 } });
    const other = await team.postCommand(id, { action: 'STOP' });
    const { message } = await expectError(other, 400, 'COMMAND_ACTION_NOT_IN_TEMPLATE');
    expect(message).toBe(
      'action: the template "PowerBox 50" of the device has no action STOP: send one of REBOOT',
    );
    for (const [payload, faults] of [
      [{}, 1],
      [{ delaySeconds: 61 }, 1],
      [{ delaySeconds: -1 }, 1],
      [{ delaySeconds: 1.5 }, 1],
      [{ delaySeconds: '5' }, 1],
      [{ delay: 5, force: true }, 3],
    ] as const) {
      const answer = await team.postCommand(id, { action: 'REBOOT', payload });
      const { details } = await expectError(answer, 400, 'COMMAND_PARAMS_INVALID');
      expect([payload, details]).toEqual([payload, expect.objectContaining({ length: faults })]);
    }
    expect((await team.listCommands(id)).meta.total).toBe(1);
    await team.operator.change(`/devices/${id}`, { templateId: null });
    await team.command(id, { action: 'STOP' });
  });

  it('follow the template of the sub-device that is linked to the device, if it has none itself [C-11.6]', async ({
    team,
    plantId,
  }) => {
    const { id: templateId } = await team.newTemplate(BATTERY);
    const device = await team.newTokenDevice({ plantId, type: 'ACTUATOR' });
    await team.newSubDevice(plantId, { linkedDeviceId: device.id, templateId });
    const refused = await team.postCommand(device.id, { action: 'STOP' });
    await expectError(refused, 400, 'COMMAND_ACTION_NOT_IN_TEMPLATE');
    const { id: own } = await team.newTemplate({ actions: [{ action: 'STOP', label: 'Stop' }] });
    await team.operator.change(`/devices/${device.id}`, { templateId: own });
    await team.command(device.id, { action: 'STOP' });
  });

  it('follow no template of the platform that only the sub-device has, because REST refuses its actions [C-11.6]', async ({
    team,
    plantId,
  }) => {
    const device = await team.newTokenDevice({ plantId, type: 'ACTUATOR' });
    await team.newSubDevice(plantId, { linkedDeviceId: device.id, templateId: BESS });
    await team.command(device.id, { action: 'REBOOT' });
  });

  it('get the first answer again with a repeated idempotencyKey, whatever the template says now [C-3.4]', async ({
    team,
  }) => {
    const { id: templateId } = await team.newTemplate(BATTERY);
    const { id } = await team.newTokenDevice({ templateId });
    const body = { action: 'REBOOT', payload: { delaySeconds: 1 }, idempotencyKey: 'k1' };
    const made = await team.command(id, body);
    await team.admin.change(`/device-templates/${templateId}`, { actions: [] });
    expect(await team.command(id, body)).toEqual(made);
    const other = await team.postCommand(id, { ...body, idempotencyKey: 'k2' });
    await expectError(other, 400, 'COMMAND_ACTION_NOT_IN_TEMPLATE');
  });

  it('follow a changed template at once [C-11.6]', async ({ team }) => {
    const { id: templateId } = await team.newTemplate(BATTERY);
    const { id } = await team.newTokenDevice({ templateId });
    await team.admin.change(`/device-templates/${templateId}`, {
      actions: [{ action: 'STOP', label: 'Stop' }],
    });
    await team.command(id, { action: 'STOP' });
    await expectError(
      await team.postCommand(id, { action: 'REBOOT', payload: { delaySeconds: 1 } }),
      400,
      'COMMAND_ACTION_NOT_IN_TEMPLATE',
    );
  });

  it('are refused if only partners may send them, even if a template names them [C-3.4]', async ({
    team,
  }) => {
    const { id } = await team.newTokenDevice({ templateId: BESS });
    for (const action of ['BESS_STOP', 'REBOOT'])
      await expectError(await team.postCommand(id, { action }), 400, 'COMMAND_ACTION_NOT_IN_TEMPLATE');
  });
});

describe('diagnostics of a device with a template', () => {
  it('name the signals that are not in the template and the values beyond it; both are stored [C-11.6]', async ({
    team,
    plantId,
  }) => {
    const state = {
      name: 'fan',
      label: 'Fan',
      unit: '',
      kind: 'STATE',
      states: [{ value: 0, label: 'Off' }],
    };
    const { id: templateId } = await team.newTemplate({ ...BATTERY, signals: [POWER, state] });
    const gateway = await team.newTokenDevice({ plantId, templateId });
    await team.newSubDevice(plantId, { templateId: BESS });
    const link = await connect(gateway);
    await sendTelemetry(link, gateway, {
      powerKw: 51,
      fan: 1,
      volts: 3,
      'BESS-1/socPercent': 101,
      'BESS-1/volts': 1,
    });
    const names = (hints: string[]) => hints.filter((hint) => hint.includes('template'));
    expect(names((await team.diagnosticsOf(gateway.id)).hints)).toEqual([
      '2 signals are not in the template: volts, BESS-1/volts: correct the name, or add it to the template',
      '3 values are not as in the template: powerKw 51 is above 50, fan 1 is not one of the states, BESS-1/socPercent 101 is above 100: correct the value, or change the template',
    ]);
    const { data } = await team.viewer.read<Page<{ metric: string }>>(
      `/telemetry/${gateway.id}?metric=volts`,
    );
    expect(data).toHaveLength(1);
    await sendTelemetry(link, gateway, { powerKw: 50, fan: 0, 'BESS-1/socPercent': 100 });
    expect(names((await team.diagnosticsOf(gateway.id)).hints)).toHaveLength(1);
  });

  it('have no hint about templates for a device without one [C-11.6]', async ({ team, plantId }) => {
    const gateway = await team.newTokenDevice({ plantId });
    await team.newSubDevice(plantId);
    await sendTelemetry(await connect(gateway), gateway, { 'BESS-1/volts': 1 });
    expect((await team.diagnosticsOf(gateway.id)).hints).toEqual([]);
  });
});
