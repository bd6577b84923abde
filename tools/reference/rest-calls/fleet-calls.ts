/** Calls about plants, devices and device templates. */
import type { Call } from './call.ts';

const RANGE = 'from=$AN_HOUR_AGO&to=$IN_AN_HOUR';

export const PLANT_CALLS: readonly Call[] = [
  {
    route: 'POST /api/v1/plants',
    body: {
      name: 'Dairy',
      externalPlantId: 'dairy-7',
      eanCons: '859182400000000701',
      eanProd: '859182400000000702',
      timezone: 'Europe/Prague',
    },
    save: { PLANT: 'id' },
  },
  { route: 'GET /api/v1/plants', query: 'limit=20' },
  { route: 'GET /api/v1/plants/{id}', ids: { id: 'PLANT' } },
  { route: 'PATCH /api/v1/plants/{id}', ids: { id: 'PLANT' }, body: { name: 'Dairy, hall 2' } },
  {
    route: 'POST /api/v1/plants/{id}/sub-devices',
    ids: { id: 'PLANT' },
    body: { externalId: 'BESS-1', assetType: 'BESS', name: 'Battery', ratedPowerKw: 50, capacityKwh: 100 },
    save: { SUB_DEVICE: 'id' },
  },
  { route: 'GET /api/v1/plants/{id}/sub-devices', ids: { id: 'PLANT' } },
  {
    route: 'GET /api/v1/plants/{id}/sub-devices/{subDeviceId}',
    ids: { id: 'PLANT', subDeviceId: 'SUB_DEVICE' },
  },
  {
    route: 'PATCH /api/v1/plants/{id}/sub-devices/{subDeviceId}',
    ids: { id: 'PLANT', subDeviceId: 'SUB_DEVICE' },
    body: { ratedPowerKw: 60 },
  },
  {
    route: 'POST /api/v1/plants/{id}/sub-devices/{subDeviceId}/meter-exchange',
    ids: { id: 'PLANT', subDeviceId: 'SUB_DEVICE' },
    body: { registers: { chargeRegisterKwh: { value: 0.2, totalKwh: 48_210.7 } } },
    note: 'The total counts on from `totalKwh` when the new meter shows more than `value`.',
  },
  {
    route: 'PUT /api/v1/plants/{id}/config',
    ids: { id: 'PLANT' },
    body: {
      constraints: {
        maxImportKw: 120,
        maxExportKw: 90,
        maxChargeKw: 50,
        maxDischargeKw: 50,
        minSocPercent: 10,
        maxSocPercent: 95,
        maxRampKwPerMinute: null,
      },
      fallback: { mode: 'STANDARD', afterSeconds: 300, action: 'MODE', setpointKw: null },
      operatingMode: 'STANDARD',
    },
  },
  { route: 'GET /api/v1/plants/{id}/config', ids: { id: 'PLANT' } },
  {
    route: 'POST /api/v1/plants/{id}/commands/dry-run',
    ids: { id: 'PLANT' },
    body: { family: 'mode', payload: { mode: 'PEAK_SHAVING' } },
  },
  {
    route: 'POST /api/v1/plants/{id}/commands',
    ids: { id: 'PLANT' },
    body: {
      family: 'site-setpoint',
      payload: {
        ...{ type: 'POWER', targetValueKw: 20, direction: 'IMPORT', includeConsumption: true },
        ...{ priority: 'NORMAL', validFrom: '$IN_AN_HOUR' },
      },
      idempotencyKey: 'morning-peak',
    },
  },
  {
    route: 'GET /api/v1/plants/{id}/stream',
    note: 'The stream stays open; `-m 1` ends it after a second, in which there was no event.',
    ids: { id: 'PLANT' },
    query: 'type=alarm',
    readsForSeconds: 1,
  },
];

export const DEVICE_CALLS: readonly Call[] = [
  {
    route: 'POST /api/v1/device-templates',
    body: {
      name: 'PowerBox gateway',
      assetType: 'GENERIC',
      manufacturer: 'Acme',
      model: 'PB-G',
      signals: [{ name: 'gridPowerKw', label: 'Grid power', unit: 'kW', kind: 'GAUGE', min: -100, max: 100 }],
      actions: [
        {
          action: 'REBOOT',
          label: 'Restart',
          params: { delaySeconds: { type: 'integer', unit: 's', min: 0, max: 60, required: true } },
        },
      ],
    },
    save: { TEMPLATE: 'id' },
  },
  { route: 'GET /api/v1/device-templates', query: 'level=ORGANIZATION' },
  { route: 'GET /api/v1/device-templates/{id}', ids: { id: 'TEMPLATE' } },
  { route: 'PATCH /api/v1/device-templates/{id}', ids: { id: 'TEMPLATE' }, body: { model: 'PB-G2' } },
  {
    route: 'POST /api/v1/devices',
    body: {
      name: 'Dairy gateway',
      serialNumber: 'GW-2026-00042',
      type: 'GATEWAY',
      authMethod: 'TOKEN',
      plantId: '$PLANT',
      templateId: '$TEMPLATE',
    },
    save: { DEVICE: 'id' },
  },
  { route: 'GET /api/v1/devices', query: 'plantId=$PLANT' },
  { route: 'GET /api/v1/devices/{id}', ids: { id: 'DEVICE' } },
  {
    route: 'PATCH /api/v1/devices/{id}',
    ids: { id: 'DEVICE' },
    body: { metadata: { firmware: '2.1.0' } },
  },
  {
    route: 'POST /api/v1/devices/{id}/provision',
    ids: { id: 'DEVICE' },
    body: {},
    save: { SECRET: 'security.hmacSecret', MQTT_TOKEN: 'security.mqttToken' },
  },
  {
    route: 'POST /api/v1/devices/{id}/commands',
    ids: { id: 'DEVICE' },
    body: { action: 'REBOOT', payload: { delaySeconds: 5 }, idempotencyKey: 'reboot-2026-01-15' },
    save: { COMMAND: 'cmdId' },
  },
  {
    route: 'GET /api/v1/devices/{id}/commands',
    note: 'The gateway has connected, executed the command and sent telemetry.',
    prepare: async (world) => {
      await world.connectGateway();
      await world.report({
        gridPowerKw: 12.5,
        'BESS-1/powerKw': 5,
        'BESS-1/socPercent': 55,
        'BESS-1/chargeRegisterKwh': 120,
      });
      await world.commandEnds();
      return undefined;
    },
    ids: { id: 'DEVICE' },
  },
  {
    route: 'GET /api/v1/devices/{id}/commands/{cmdId}',
    ids: { id: 'DEVICE', cmdId: 'COMMAND' },
  },
  { route: 'GET /api/v1/devices/{id}/diagnostics', ids: { id: 'DEVICE' } },
  {
    route: 'GET /api/v1/telemetry/{deviceId}',
    ids: { deviceId: 'DEVICE' },
    query: `metric=gridPowerKw&${RANGE}`,
  },
  {
    route: 'POST /api/v1/devices/{id}/mqtt-token',
    ids: { id: 'DEVICE' },
    body: { expiresIn: 86_400 },
  },
  {
    route: 'POST /api/v1/devices/{id}/mqtt-token/renew',
    note: 'The device signs `deviceId|ts|nonce|RENEW` with its secret: `TS`, `NONCE` and `SIG` are its values.',
    prepare: async (world) => world.renewal(),
    ids: { id: 'DEVICE' },
    body: { ts: '#TS', nonce: '$NONCE', sig: '$SIG' },
  },
  { route: 'POST /api/v1/devices/{id}/rotate-secret', ids: { id: 'DEVICE' } },
  {
    route: 'POST /api/v1/devices',
    isHidden: true,
    body: { name: 'Boiler', serialNumber: 'BO-2026-00007', type: 'ACTUATOR', plantId: '$PLANT' },
    save: { OTHER_DEVICE: 'id' },
  },
  { route: 'POST /api/v1/devices/{id}/provision', isHidden: true, ids: { id: 'OTHER_DEVICE' }, body: {} },
  { route: 'POST /api/v1/devices/{id}/certificate', ids: { id: 'OTHER_DEVICE' }, body: {} },
  {
    route: 'POST /api/v1/devices/{id}/suspend',
    ids: { id: 'OTHER_DEVICE' },
    body: { reason: 'Maintenance' },
  },
  { route: 'POST /api/v1/devices/{id}/reactivate', ids: { id: 'OTHER_DEVICE' }, body: {} },
  { route: 'POST /api/v1/devices/{id}/revoke', ids: { id: 'OTHER_DEVICE' }, body: { reason: 'Replaced' } },
  { route: 'DELETE /api/v1/devices/{id}', ids: { id: 'OTHER_DEVICE' } },
];
