/** The closed value lists of the interface (spec: Enumerations, States, Events). */
export const ASSET_TYPES = [
  'BESS',
  'FVE',
  'METER',
  'HEAT_PUMP',
  'EV_CHARGER',
  'THERMOSTAT',
  'INVERTER',
  'GENERIC',
] as const;
export type AssetType = (typeof ASSET_TYPES)[number];

export const SUB_DEVICE_STATUSES = ['ONLINE', 'OFFLINE', 'DEGRADED', 'UNKNOWN'] as const;
export type SubDeviceStatus = (typeof SUB_DEVICE_STATUSES)[number];

export const OPERATING_MODES = [
  'STANDARD',
  'ZERO_EXPORT',
  'MAX_EXPORT',
  'PEAK_SHAVING',
  'LOCAL_OPTIMIZATION',
  'GRID_TARGET',
  'LDS_SUPPORT',
] as const;
export type OperatingMode = (typeof OPERATING_MODES)[number];

export const DATA_QUALITIES = ['GOOD', 'INTERPOLATED', 'STALE', 'MISSING'] as const;
export type DataQuality = (typeof DATA_QUALITIES)[number];

export const READING_QUALITIES = ['GOOD', 'DEGRADED', 'ESTIMATED'] as const;
export type ReadingQuality = (typeof READING_QUALITIES)[number];

export const METER_ROLES = ['GRID', 'FVE', 'BESS', 'CONSUMPTION'] as const;
export type MeterRole = (typeof METER_ROLES)[number];

export const DEVICE_COMMAND_TYPES = [
  'FVE_PRODUCE_MAX',
  'FVE_REDUCE_PERCENT',
  'FVE_REDUCE_POWER',
  'FVE_STOP',
  'BESS_CHARGE',
  'BESS_DISCHARGE',
  'BESS_STOP',
  'BESS_CHARGE_ONLY',
  'BESS_DISCHARGE_ONLY',
  'BESS_CONTINUOUS_CHARGE',
] as const;
export type DeviceCommandType = (typeof DEVICE_COMMAND_TYPES)[number];

export const REJECTION_CODES = [
  'CONSTRAINT_VIOLATION',
  'INVALID_COMMAND',
  'INVALID_PAYLOAD',
  'DEVICE_OFFLINE',
  'DEVICE_FAULT',
  'UNSUPPORTED_FOR_TOPOLOGY',
] as const;
export type RejectionCode = (typeof REJECTION_CODES)[number];

export const PRIORITIES = ['NORMAL', 'HIGH', 'EMERGENCY'] as const;
export const SETPOINT_TYPES = ['POWER', 'ENERGY'] as const;
export const DIRECTIONS = ['IMPORT', 'EXPORT'] as const;
export const EMERGENCY_TYPES = ['STOP', 'HOLD'] as const;
export type EmergencyType = (typeof EMERGENCY_TYPES)[number];

export const ACKNOWLEDGEMENT_STATUSES = ['ACCEPTED', 'REJECTED', 'PARTIAL', 'QUEUED'] as const;

export const EXECUTION_STATUSES = ['EXECUTING', 'COMPLETED', 'DEVIATED', 'FAILED'] as const;
export type ExecutionStatus = (typeof EXECUTION_STATUSES)[number];

/** Command-log states [C-4.3]. */
export const COMMAND_STATUSES = ['PENDING', ...EXECUTION_STATUSES, 'REJECTED'] as const;
export type CommandStatus = (typeof COMMAND_STATUSES)[number];

/** spec: Schedule summary. The first three are open. */
export const SCHEDULE_STATUSES = [
  'PENDING',
  'ACCEPTED',
  'ACTIVE',
  'COMPLETED',
  'FAILED',
  'CANCELLED',
] as const;
export type ScheduleStatus = (typeof SCHEDULE_STATUSES)[number];

export const DEVICE_TYPES = ['SENSOR', 'ACTUATOR', 'GATEWAY', 'CONTROLLER'] as const;
export type DeviceType = (typeof DEVICE_TYPES)[number];
export const AUTH_METHODS = ['MTLS', 'TOKEN'] as const;
export type AuthMethod = (typeof AUTH_METHODS)[number];
export const DEVICE_STATUSES = ['PENDING', 'ACTIVE', 'SUSPENDED', 'DECOMMISSIONED'] as const;
export type DeviceStatus = (typeof DEVICE_STATUSES)[number];
export const DEVICE_REPORTED_STATUSES = ['ONLINE', 'OFFLINE', 'MAINTENANCE', 'ERROR'] as const;
export type DeviceReportedStatus = (typeof DEVICE_REPORTED_STATUSES)[number];
export const DEVICE_CONNECTION_STATUSES = [...DEVICE_REPORTED_STATUSES, 'UNKNOWN'] as const;
export type DeviceConnectionStatus = (typeof DEVICE_CONNECTION_STATUSES)[number];
export const DEVICE_ACK_STATUSES = ['RECEIVED', 'IN_PROGRESS', 'COMPLETED', 'FAILED'] as const;
export type DeviceAckStatus = (typeof DEVICE_ACK_STATUSES)[number];
/** Why a device's message was dropped [C-3.8]. `TOPIC`: the device may not use that topic. */
export const DEVICE_DROP_REASONS = [
  'MALFORMED',
  'ENCODING',
  'SIGNATURE',
  'TIMESTAMP',
  'NONCE',
  'TOPIC',
  'SIZE',
] as const;
export type DeviceDropReason = (typeof DEVICE_DROP_REASONS)[number];
/** The statuses of a REST command [C-3.4]. */
export const DEVICE_COMMAND_STATUSES = ['PENDING', 'SENT', ...DEVICE_ACK_STATUSES] as const;
export type DeviceCommandStatus = (typeof DEVICE_COMMAND_STATUSES)[number];

/** [C-1.2], lowest first: each role includes the roles before it. */
export const ROLES = ['VIEWER', 'OPERATOR', 'ADMIN', 'ORG_ADMIN'] as const;
export type Role = (typeof ROLES)[number];

/** Whether `role` includes `other`. */
export function includesRole(role: Role, other: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(other);
}

export const PLANT_STATUSES = ['PENDING', 'ONLINE', 'DEGRADED', 'OFFLINE'] as const;
export type PlantStatus = (typeof PLANT_STATUSES)[number];
