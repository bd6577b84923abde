/** The limits of devices, device templates and REST commands: a part of `LIMITS` (limits.ts). */

/** [value, unit, clause, organization setting] */
export type Limit = readonly [value: number, unit: string, clause: string, setting?: string];

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const KIB = 1_024;
const MIB = 1_024 * KIB;

export const DEVICE_LIMITS = {
  // MQTT and devices
  mqttConnectBytes: [16 * KIB, 'bytes', 'ours'],
  mqttPacketBytes: [128 * KIB, 'bytes', 'ours'],
  mqttConnectMs: [10 * SECOND, 'ms', 'ours'],
  mqttKeepAliveSeconds: [300, 'seconds', 'ours'],
  // Maximum number of QoS 2 messages without PUBREL. A common client (paho) sends at most 20 by default.
  // Payloads that the Site has stored are no longer in memory.
  mqttInflightMessages: [32, 'messages', 'ours'],
  // Payloads of one device that its Site has not answered; above it the bridge does not read from the device.
  mqttUnansweredBytes: [MIB, 'bytes', 'ours'],
  deviceMessagesPerSecond: [20, 'messages', 'C-3.8', 'deviceRatePerSecond'],
  deviceMessagesBurst: [200, 'messages', 'C-3.8'],
  // At the default rate of 20 messages per second; changes in proportion to the setting of that rate.
  deviceMinuteBytes: [MIB, 'bytes', 'ours'],
  serialNumberCharacters: [50, 'characters', 'spec: Limits'],
  devicesPerOrganization: [100_000, 'devices', 'ours'],
  // Small, because each device's metadata is in a row of D1, which all organizations share.
  deviceMetadataBytes: [KIB, 'bytes', 'ours'],
  mqttTokenSeconds: [3_600, 'seconds', 'spec: Limits'],
  mqttTokenSecondsMin: [60, 'seconds', 'C-3.3'],
  mqttTokenSecondsMax: [86_400, 'seconds', 'spec: Limits'],
  secretGraceMs: [60 * MINUTE, 'ms', 'spec: Limits'],
  certificateDays: [365, 'days', 'ours'],
  certificateGraceMs: [60 * MINUTE, 'ms', 'C-3.3'],
  csrCharacters: [16 * KIB, 'characters', 'ours'],
  authFailures: [10, 'failures', 'spec: Limits'],
  authFailuresMs: [5 * MINUTE, 'ms', 'spec: Limits'],
  // Logins that took the place of a live session: so many in this time are reported, with an audit event this often.
  takeoversReported: [3, 'logins', 'ours'],
  takeoverWindowMs: [10 * MINUTE, 'ms', 'ours'],
  takeoverAuditMs: [60 * MINUTE, 'ms', 'ours'],
  diagnosticsEntries: [100, 'entries', 'C-3.8'],
  // Device templates of an organization, and the size of one as JSON.
  templatesPerOrganization: [200, 'templates', 'C-11.6'],
  templateSignals: [200, 'signals', 'C-11.6'],
  templateActions: [64, 'actions', 'C-11.6'],
  templateParams: [32, 'parameters', 'ours'],
  templateValues: [64, 'values', 'ours'],
  templateUnitCharacters: [16, 'characters', 'ours'],
  templateTextCharacters: [500, 'characters', 'ours'],
  // Of the signals, and of the actions.
  templateListBytes: [32 * KIB, 'bytes', 'ours'],
  // REST commands of a device: payload size, open commands, stored commands.
  restCommandPayloadBytes: [16 * KIB, 'bytes', 'ours'],
  openRestCommands: [50, 'commands', 'ours'],
  restCommandsKept: [1_000, 'commands', 'ours'],
  nonceBytes: [128, 'bytes', 'C-3.8'],
  signalsPerMessage: [1_000, 'signals', 'ours'],
  signalNameCharacters: [128, 'characters', 'C-3.13'],
  signalMagnitude: [1e12, 'any', 'C-3.13'],
  signalsPerSite: [2_000, 'signals', 'C-3.13'],
  unknownSignalsPerSite: [500, 'signals', 'ours'],
} as const satisfies Record<string, Limit>;
