/** Named JSON Schemas (draft 7, the dialect of AsyncAPI 3) of all AMQP and MQTT messages and payloads. */
import * as z from 'zod';
import { mqttCommand } from '../../../protocol/action.ts';
import { DEVICE_MESSAGES } from '../../../protocol/device-message.ts';
import { envelopeFields } from '../../../protocol/envelope.ts';
import { EVENT_PAYLOADS, eventEnvelope } from '../../../protocol/event.ts';
import { setNumberFormat } from '../../../protocol/number-format.ts';
import { SIGNATURE } from '../../../protocol/signing.ts';
import { PAYLOADS } from './commands.ts';

export type Json = Record<string, unknown>;

const signature = { type: 'string', pattern: SIGNATURE.source };

const envelope = schemaOf(envelopeFields);

/**
 * The named schemas. Envelope, Event and Command are forms of messages whose payload varies: `withPayload`
 * sets the payload.
 */
export const SCHEMAS = {
  Envelope: {
    ...envelope,
    properties: { ...(envelope.properties as Json), payload: { type: 'object' }, signature },
    required: [...(envelope.required as string[]).filter((name) => name !== 'signature'), 'payload'],
  },
  ...(Object.fromEntries(
    Object.entries(PAYLOADS).map(([name, payload]) => [name, schemaOf(payload)]),
  ) as Record<keyof typeof PAYLOADS, Json>),
  SiteSetpoint: {
    ...schemaOf(PAYLOADS.SiteSetpoint),
    // zod does not export refinements to JSON Schema, so this condition is repeated here.
    if: { properties: { type: { const: 'POWER' } } },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema.
    then: { required: ['targetValueKw'] },
    else: { required: ['targetValueKwh', 'intervalMinutes'] },
  },
  ConfigPatch: { ...schemaOf(PAYLOADS.ConfigPatch), minProperties: 1 },
  Event: schemaOf(eventEnvelope),
  Acknowledgement: schemaOf(EVENT_PAYLOADS.ack),
  Execution: schemaOf(EVENT_PAYLOADS.execution),
  Alarm: schemaOf(EVENT_PAYLOADS.alarm),
  Telemetry: schemaOf(EVENT_PAYLOADS.telemetry),
  DeviceTelemetry: schemaOf(DEVICE_MESSAGES.telemetry),
  DeviceStatus: schemaOf(DEVICE_MESSAGES.status),
  DeviceAck: schemaOf(DEVICE_MESSAGES.ack),
  Command: schemaOf(mqttCommand),
} satisfies Record<string, Json>;
export type SchemaName = keyof typeof SCHEMAS;

export function refTo(name: SchemaName): Json {
  return { $ref: `#/components/schemas/${name}` };
}

/** For the names of operations: `deviceAck` becomes `DeviceAck`. */
export function capitalized(name: string): string {
  return `${name[0]?.toUpperCase()}${name.slice(1)}`;
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
      // zod adds the bounds of safe integers to every integer. They are removed, because they are not limits
      // of the interface.
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      setNumberFormat(jsonSchema);
    },
  });
  return rest;
}
