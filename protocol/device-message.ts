/** Messages between a device and the platform (spec: Device MQTT messages; [C-3.7], [C-3.8]). */
import * as z from 'zod';
import { compact, signableJson, sliceMembers } from './compact-json.ts';
import { DEVICE_ACK_STATUSES, DEVICE_REPORTED_STATUSES } from './enums.ts';
import { allIssues, faultsText } from './issue.ts';
import { LIMIT } from './limits.ts';
import { ok, type Result, refuse } from './result.ts';
import { ackSigningString, SIGNATURE, statusSigningString, telemetrySigningString } from './signing.ts';
import type { DevicePublishTopic } from './topics.ts';
import { usualReading } from './usual-reading.ts';
import { utf8Length } from './utf8.ts';

const integerText = z.string().regex(/^-?\d{1,16}$/, 'must be an integer');
const ts = integerText.transform(Number);
const sig = z.string().regex(SIGNATURE, 'must be 64 lower-case hex characters');
const nonce = z
  .string()
  .min(1)
  .refine((text) => utf8Length(text) <= LIMIT.nonceBytes, `must be 1-${LIMIT.nonceBytes} bytes`)
  .meta({ maxLength: LIMIT.nonceBytes });
/** Excludes Unicode's category "Other" (control, format, surrogate, private use, unassigned). */
const SIGNAL_NAME = new RegExp(`^\\P{C}{1,${LIMIT.signalNameCharacters}}$`, 'u');
const signalName = z
  .string()
  .regex(SIGNAL_NAME, `must be a name of 1-${LIMIT.signalNameCharacters} printable characters`);
const signalValue = z.number().min(-LIMIT.signalMagnitude).max(LIMIT.signalMagnitude);
const data = z.record(signalName, signalValue).meta({ maxProperties: LIMIT.signalsPerMessage });

const telemetryFields = z.object({ ts, nonce, data, sig });
const statusFields = z.object({ ts, nonce, status: z.enum(DEVICE_REPORTED_STATUSES), sig });
const ackFields = z.object({
  ts,
  cmdId: z.string().min(1).max(64),
  status: z.enum(DEVICE_ACK_STATUSES),
  sig,
});

/** The messages as devices send them. Additional fields are ignored. */
export const DEVICE_MESSAGES = {
  telemetry: telemetryFields.extend({ ts: z.int() }),
  status: statusFields.extend({ ts: z.int() }),
  ack: ackFields.extend({ ts: z.int() }),
} satisfies Record<DevicePublishTopic, z.ZodType>;

const messageFields = z.discriminatedUnion('topic', [
  telemetryFields.extend({ topic: z.literal('telemetry') }),
  statusFields.extend({ topic: z.literal('status') }),
  ackFields.extend({ topic: z.literal('ack') }),
]);
type MessageFields = z.infer<typeof messageFields>;

/** A parsed message, with the exact text that its `sig` must cover. */
export type DeviceMessage = { signingString: string } & (
  | (Extract<MessageFields, { topic: 'telemetry' }> & { dataText: string })
  | Exclude<MessageFields, { topic: 'telemetry' }>
);

/** Parses a device's message. The refusal is for counts and diagnostics; the device never receives it. */
export function parseDeviceMessage(
  deviceId: string,
  topic: DevicePublishTopic,
  text: string,
): Result<DeviceMessage, string> {
  const usual = topic === 'telemetry' ? usualReading(text) : undefined;
  if (usual) {
    const signingString = telemetrySigningString(deviceId, usual.ts, usual.nonce, usual.dataText);
    return ok({ topic: 'telemetry', ...usual, signingString });
  }
  return parseBySchema(deviceId, topic, text);
}

/** Parses any message. Tests check that the fast path of `usualMessage` gives the same result. */
export function parseBySchema(
  deviceId: string,
  topic: DevicePublishTopic,
  text: string,
): Result<DeviceMessage, string> {
  const members = sliceMembers(text);
  if (!members.ok) return members;
  const parsed = messageFields.safeParse({ ...readMembers(members.value), topic });
  if (!parsed.success) return refuse(faultsText(allIssues(parsed.error)));
  const fields = parsed.data;
  switch (fields.topic) {
    case 'telemetry': {
      if (Object.keys(fields.data).length > LIMIT.signalsPerMessage)
        return refuse(`data: more than ${LIMIT.signalsPerMessage} signals`);
      const dataText = compact(members.value.get('data') ?? '');
      const signingString = telemetrySigningString(deviceId, fields.ts, fields.nonce, dataText);
      return ok({ ...fields, dataText, signingString });
    }
    case 'status': {
      const signingString = statusSigningString(deviceId, fields.ts, fields.nonce, fields.status);
      return ok({ ...fields, signingString });
    }
    case 'ack': {
      const signingString = ackSigningString(deviceId, fields.cmdId, fields.ts, fields.status);
      return ok({ ...fields, signingString });
    }
  }
}

/**
 * Returns the members as values, but `ts` as text. JSON also accepts 1e12 and 1.0 as a number, but `ts` must
 * be an integer, because the signature covers its digits.
 */
function readMembers(members: ReadonlyMap<string, string>): Record<string, unknown> {
  const raw: Record<string, unknown> = {};
  for (const name of ['nonce', 'data', 'sig', 'status', 'cmdId']) {
    const text = members.get(name);
    if (text !== undefined) raw[name] = JSON.parse(text);
  }
  raw.ts = members.get('ts');
  return raw;
}

/** The JSON text of a command to a device. `payloadText` is inserted unchanged, because the signature covers it. */
export function commandMessage(fields: {
  cmdId: string;
  ts: number;
  action: string;
  payloadText: string;
  sig: string;
}): string {
  const { cmdId, ts: sentAtMs, action, payloadText, sig: signature } = fields;
  return `{"cmdId":${signableJson(cmdId)},"ts":${sentAtMs},"action":${signableJson(action)},"payload":${payloadText},"sig":"${signature}"}`;
}
