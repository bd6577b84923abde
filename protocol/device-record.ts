/**
 * Devices as admins manage them (spec: Device fields, Provisioning package; [C-3.1] to [C-3.4]). Their messages
 * are in `device-message.ts`.
 */
import * as z from 'zod';
import { actionName } from './device-template.ts';
import {
  AUTH_METHODS,
  DEVICE_COMMAND_STATUSES,
  DEVICE_CONNECTION_STATUSES,
  DEVICE_STATUSES,
  DEVICE_TYPES,
} from './enums.ts';
import { instant, uuid } from './ids.ts';
import { LIMIT } from './limits.ts';
import { plainObject, plainText } from './text.ts';
import { displayName } from './user.ts';

const serialNumber = plainText.max(LIMIT.serialNumberCharacters).regex(/\S/, 'must not be blank');

/** The fields of a device that may be changed. */
const changeable = {
  name: displayName,
  type: z.enum(DEVICE_TYPES),
  metadata: plainObject(LIMIT.deviceMetadataBytes),
  plantId: uuid.nullable(),
  /** The device template whose actions the device executes [C-11.6]. */
  templateId: uuid.nullable(),
};

export const deviceRequest = z.strictObject({
  name: displayName,
  serialNumber,
  type: z.enum(DEVICE_TYPES),
  authMethod: z.enum(AUTH_METHODS).default('MTLS'),
  metadata: changeable.metadata.default({}),
  plantId: changeable.plantId.default(null),
  templateId: changeable.templateId.default(null),
});
export type DeviceRequest = z.infer<typeof deviceRequest>;

/** A PATCH: omitted fields stay unchanged. */
export const deviceChange = z.strictObject(changeable).partial();
export type DeviceChange = z.infer<typeof deviceChange>;

export const deviceRecord = z.strictObject({
  id: z.string(),
  organizationId: z.string(),
  plantId: z.string().nullable(),
  name: z.string(),
  serialNumber: z.string(),
  type: z.enum(DEVICE_TYPES),
  authMethod: z.enum(AUTH_METHODS),
  metadata: z.record(z.string(), z.unknown()),
  templateId: z.string().nullable(),
  status: z.enum(DEVICE_STATUSES),
  connectionStatus: z.enum(DEVICE_CONNECTION_STATUSES),
  lastSeenAt: z.string().nullable(),
  provisionedAt: z.string().nullable(),
  suspendedAt: z.string().nullable(),
  suspendReason: z.string().nullable(),
  /** Expiry of the last issued token. */
  tokenExpiresAt: z.string().nullable(),
  /** Set while the previous secret is still valid. */
  hmacRotation: z.strictObject({ graceUntil: z.string() }).nullable(),
  createdAt: z.string(),
  updatedAt: z.string(),
});
export type DeviceRecord = z.infer<typeof deviceRecord>;

/** `csr`: PEM text of a certificate request. Without it the platform generates the private key. */
export const certificateRequest = z.strictObject({
  csr: z.string().max(LIMIT.csrCharacters).optional(),
});

const certificatePackage = z.strictObject({
  /** PEM. */
  certificate: z.string(),
  /** PEM (PKCS #8); absent if the request contained a CSR. */
  privateKey: z.string().optional(),
  certificateExpiresAt: z.string(),
});

/**
 * The credentials and connection data of a new device; only one answer contains them (spec: Provisioning
 * package; [C-3.3]).
 */
export const provisioningPackage = z.strictObject({
  deviceId: z.string(),
  authMethod: z.enum(AUTH_METHODS),
  mqtt: z.strictObject({
    broker: z.string(),
    port: z.int(),
    topics: z.strictObject({
      telemetry: z.string(),
      status: z.string(),
      commands: z.string(),
      ack: z.string(),
    }),
  }),
  security: z.strictObject({
    hmacSecret: z.string(),
    mqttToken: z.string().optional(),
    tokenExpiresAt: z.string().optional(),
    ...certificatePackage.partial().shape,
    /** PEM of the CA that the device must trust; absent if operating systems trust the listener's certificate. */
    caCertificate: z.string().optional(),
  }),
  protocol: z.strictObject({
    version: z.literal('1.0'),
    signatureAlgorithm: z.literal('HMAC-SHA256'),
    timestampToleranceMs: z.literal(LIMIT.timestampToleranceMs),
  }),
});
export type ProvisioningPackage = z.infer<typeof provisioningPackage>;

export const certificateAnswer = z.strictObject({
  deviceId: z.string(),
  ...certificatePackage.shape,
  caCertificate: z.string().optional(),
  /** When the previous certificate stops being accepted; null if the device had none. */
  previousUntil: z.string().nullable(),
});

export const tokenRequest = z.strictObject({
  /** Seconds. */
  expiresIn: z
    .int()
    .min(LIMIT.mqttTokenSecondsMin)
    .max(LIMIT.mqttTokenSecondsMax)
    .default(LIMIT.mqttTokenSeconds),
  /** Ends all other tokens of the device, and a session that was opened with one. */
  endOthers: z.boolean().default(false),
});
export const tokenAnswer = z.strictObject({ token: z.string(), expiresAt: z.string() });
export type TokenAnswer = z.infer<typeof tokenAnswer>;

/** A device's request for a new token, signed with its secret [C-3.12]. */
export const tokenRenewal = z.strictObject({
  ts: z.int(),
  nonce: z.string().min(1).max(LIMIT.nonceBytes),
  sig: z.string().max(200),
});
export type TokenRenewal = z.infer<typeof tokenRenewal>;

/** `endOthers`: all older secrets end at once, and the session is closed [C-20.1]. */
export const secretRotationRequest = z.strictObject({ endOthers: z.boolean().default(false) });

export const secretRotation = z.strictObject({
  deviceId: z.string(),
  hmacSecret: z.string(),
  /** Null: no older secret is valid. */
  graceUntil: z.string().nullable(),
  rotatedAt: z.string(),
});

export const reasonRequest = z.strictObject({
  reason: plainText.max(LIMIT.commandReasonCharacters).optional(),
});

export const restCommandRequest = z.strictObject({
  action: actionName,
  payload: plainObject(LIMIT.restCommandPayloadBytes).default({}),
  validUntil: instant.optional(),
  idempotencyKey: plainText.min(1).max(LIMIT.nameCharacters).optional(),
});
export type RestCommandRequest = z.infer<typeof restCommandRequest>;

/** A REST command to a device [C-3.4]. `reason`: why it failed. */
export const restCommand = z.strictObject({
  cmdId: z.string(),
  deviceId: z.string(),
  action: z.string(),
  status: z.enum(DEVICE_COMMAND_STATUSES),
  reason: z.string().optional(),
  createdAt: z.string(),
});
export type RestCommand = z.infer<typeof restCommand>;

/** The dropped messages and the accepted and refused connects of a device [C-3.8], newest first. */
export const deviceDiagnostics = z.strictObject({
  /** What is probably wrong in messages that were accepted, such as names of signals that belong to no sub-device. */
  hints: z.array(z.string()),
  /** Number of dropped messages since the device was registered, by reason. */
  drops: z.record(z.string(), z.int()),
  recent: z
    .array(
      z.strictObject({
        at: z.string(),
        topic: z.string(),
        reason: z.string(),
        detail: z.string(),
        /** The text that should have been signed. Only admins see it. */
        expected: z.string().optional(),
      }),
    )
    .max(LIMIT.diagnosticsEntries),
  connects: z
    .array(
      z.strictObject({
        at: z.string(),
        address: z.string(),
        outcome: z.enum(['ACCEPTED', 'REFUSED']),
        reason: z.string().optional(),
      }),
    )
    .max(LIMIT.diagnosticsEntries),
});
export type DeviceDiagnostics = z.infer<typeof deviceDiagnostics>;
