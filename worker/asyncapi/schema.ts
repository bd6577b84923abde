/** Named JSON Schemas (draft 7, the dialect of AsyncAPI 3) of all AMQP and MQTT messages and payloads. */
import { z } from 'zod';
import { ACTION_PAYLOADS, mqttCommand } from '../../protocol/action.ts';
import { deviceCommand, emergency, modeChange, siteSetpoint } from '../../protocol/command.ts';
import { DEVICE_MESSAGES } from '../../protocol/device.ts';
import { DEVICE_COMMAND_TYPES } from '../../protocol/enums.ts';
import { envelopeFields } from '../../protocol/envelope.ts';
import { EVENT_PAYLOADS, eventEnvelope } from '../../protocol/event.ts';
import { scheduleCancel, scheduleSet } from '../../protocol/schedule.ts';
import { SIGNATURE } from '../../protocol/signing.ts';
import { configPatch } from '../../protocol/site-config.ts';

export type Json = Record<string, unknown>;

const signature = { type: 'string', pattern: SIGNATURE.source };

const envelope = schemaOf(envelopeFields);

/** Envelope, Event and Command are message forms whose payload varies: `withPayload` sets it. */
export const SCHEMAS = {
  Envelope: {
    ...envelope,
    properties: { ...(envelope.properties as Json), payload: { type: 'object' }, signature },
    required: [...(envelope.required as string[]).filter((name) => name !== 'signature'), 'payload'],
  },
  SiteSetpoint: {
    ...schemaOf(siteSetpoint),
    // zod does not export refinements to JSON Schema, so this condition is repeated here.
    if: { properties: { type: { const: 'POWER' } } },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema.
    then: { required: ['targetValueKw'] },
    else: { required: ['targetValueKwh', 'intervalMinutes'] },
  },
  DeviceCommand: schemaOf(deviceCommand),
  Emergency: schemaOf(emergency),
  ModeChange: schemaOf(modeChange),
  ScheduleSet: schemaOf(scheduleSet),
  ScheduleCancel: schemaOf(scheduleCancel),
  ConfigPatch: { ...schemaOf(configPatch), minProperties: 1 },
  Event: schemaOf(eventEnvelope),
  Acknowledgement: schemaOf(EVENT_PAYLOADS.ack),
  Execution: schemaOf(EVENT_PAYLOADS.execution),
  Alarm: schemaOf(EVENT_PAYLOADS.alarm),
  Telemetry: schemaOf(EVENT_PAYLOADS.telemetry),
  DeviceTelemetry: schemaOf(DEVICE_MESSAGES.telemetry),
  DeviceStatus: schemaOf(DEVICE_MESSAGES.status),
  DeviceAck: schemaOf(DEVICE_MESSAGES.ack),
  Command: schemaOf(mqttCommand),
  SetpointPayload: schemaOf(ACTION_PAYLOADS.SITE_SETPOINT),
  ModePayload: schemaOf(ACTION_PAYLOADS.MODE_CHANGE),
  SchedulePayload: schemaOf(ACTION_PAYLOADS.SCHEDULE_SET),
  ConfigPayload: schemaOf(ACTION_PAYLOADS.CONFIG_SET),
  TargetsPayload: schemaOf(ACTION_PAYLOADS[DEVICE_COMMAND_TYPES[0]]),
  TokenPayload: schemaOf(ACTION_PAYLOADS.TOKEN_REFRESH),
} satisfies Record<string, Json>;
export type SchemaName = keyof typeof SCHEMAS;

export function refTo(name: SchemaName): Json {
  return { $ref: `#/components/schemas/${name}` };
}

/** Returns the schema of a message form with this `payload` schema. `fixed` replaces other field schemas. */
export function withPayload(form: 'Envelope' | 'Event' | 'Command', payload: Json, fixed: Json = {}): Json {
  const { properties, ...rest } = SCHEMAS[form] as Json & { properties: Json };
  return { ...rest, properties: { ...properties, ...fixed, payload } };
}

/** Converts the input side of a zod schema: fields with defaults are optional, transforms are not applied. */
function schemaOf(schema: z.ZodType): Json {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, {
    target: 'draft-7',
    io: 'input',
    override: ({ jsonSchema }) => {
      // zod adds the bounds of safe integers to every integer. They are no limits of the interface.
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    },
  });
  return rest;
}
