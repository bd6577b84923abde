/**
 * The D1 tables: the registry of who exists and what they may. Nothing here lies on the telemetry or command
 * path; the command log, schedules, configuration and device secrets live in the Site, queues and signing keys in
 * the Vhost. Instants are epoch milliseconds. The SQL beside this file is made from it and only ever added to.
 */
import { sql } from 'drizzle-orm';
import {
  check,
  index,
  integer,
  primaryKey,
  real,
  sqliteTable,
  text,
  uniqueIndex,
} from 'drizzle-orm/sqlite-core';
import { ALERT_OPERATORS, ALERT_SEVERITIES, ALERT_STATUSES, ALERT_TYPES } from '../protocol/alert.ts';
import {
  ASSET_TYPES,
  AUTH_METHODS,
  DEVICE_CONNECTION_STATUSES,
  DEVICE_STATUSES,
  DEVICE_TYPES,
  METER_ROLES,
  PLANT_STATUSES,
  ROLES,
  SUB_DEVICE_STATUSES,
} from '../protocol/enums.ts';

/** `column IN (…)` for a CHECK constraint. The words come from our own closed lists. */
function oneOf(column: string, words: readonly string[]) {
  return sql.raw(`"${column}" IN (${words.map((word) => `'${word}'`).join(', ')})`);
}

const EAN_FORM = ['ean_cons', 'ean_prod']
  .map((column) => `("${column}" IS NULL OR (length("${column}") = 18 AND "${column}" NOT GLOB '*[^0-9]*'))`)
  .join(' AND ');

/** [C-1.1] `slug` is immutable: it is the AMQP user name and part of every queue's name. */
export const organizations = sqliteTable(
  'organizations',
  {
    id: text('id').primaryKey(),
    name: text('name').notNull(),
    slug: text('slug').notNull(),
    settings: text('settings', { mode: 'json' }).$type<Record<string, unknown>>().notNull().default({}),
    createdAtMs: integer('created_at_ms').notNull(),
    /** Grows with each change of what the organization's Sites and Vhosts hold a copy of. */
    registryVersion: integer('registry_version').notNull().default(1),
    /** A list says how many there are without reading them. */
    deviceCount: integer('device_count').notNull().default(0),
  },
  (table) => [
    uniqueIndex('organizations_slug').on(table.slug),
    check(
      'organizations_slug_form',
      sql.raw(
        `"slug" NOT GLOB '*[^a-z0-9-]*' AND "slug" NOT GLOB '-*' AND "slug" NOT GLOB '*-' AND length("slug") BETWEEN 1 AND 40`,
      ),
    ),
    check('organizations_settings_json', sql.raw(`json_valid("settings")`)),
  ],
);

/** `passwordHash` is null until the user has set a password. */
export const users = sqliteTable(
  'users',
  {
    id: text('id').primaryKey(),
    email: text('email').notNull(),
    name: text('name').notNull(),
    passwordHash: text('password_hash'),
    superAdmin: integer('super_admin', { mode: 'boolean' }).notNull().default(false),
    tokenVersion: integer('token_version').notNull().default(1),
    lastLoginAtMs: integer('last_login_at_ms'),
    createdAtMs: integer('created_at_ms').notNull(),
  },
  (table) => [
    uniqueIndex('users_email').on(table.email),
    check('users_email_lower', sql.raw(`"email" = lower("email")`)),
  ],
);

/**
 * [C-1.4] A login and what was refreshed from it. Its refresh tokens carry their generation: only the newest is good,
 * and one of before says that somebody else has it.
 */
export const sessions = sqliteTable(
  'sessions',
  {
    id: text('id').primaryKey(),
    userId: text('user_id')
      .notNull()
      .references(() => users.id),
    generation: integer('generation').notNull().default(1),
    createdAtMs: integer('created_at_ms').notNull(),
    expiresAtMs: integer('expires_at_ms').notNull(),
    revokedAtMs: integer('revoked_at_ms'),
    address: text('address'),
  },
  (table) => [
    index('sessions_user').on(table.userId, table.createdAtMs),
    index('sessions_expiry').on(table.expiresAtMs),
  ],
);

/** [C-1.4] Wrong logins of an e-mail, known or not, since the first of them. */
export const loginFailures = sqliteTable(
  'login_failures',
  {
    email: text('email').primaryKey(),
    failures: integer('failures').notNull(),
    firstAtMs: integer('first_at_ms').notNull(),
  },
  (table) => [index('login_failures_first').on(table.firstAtMs)],
);

/** [C-1.2] */
export const memberships = sqliteTable(
  'memberships',
  {
    organizationId: text('organization_id')
      .notNull()
      .references(() => organizations.id),
    userId: text('user_id')
      .notNull()
      .references(() => users.id),
    role: text('role', { enum: ROLES }).notNull(),
    createdAtMs: integer('created_at_ms').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.organizationId, table.userId] }),
    index('memberships_user').on(table.userId),
    check('memberships_role', oneOf('role', ROLES)),
  ],
);

/** [C-2.1] `status` is written by the plant's Site when it changes. */
export const plants = sqliteTable(
  'plants',
  {
    id: text('id').primaryKey(),
    organizationId: text('organization_id')
      .notNull()
      .references(() => organizations.id),
    name: text('name').notNull(),
    externalPlantId: text('external_plant_id'),
    eanCons: text('ean_cons'),
    eanProd: text('ean_prod'),
    timezone: text('timezone').notNull().default('UTC'),
    status: text('status', { enum: PLANT_STATUSES }).notNull().default('PENDING'),
    createdAtMs: integer('created_at_ms').notNull(),
  },
  (table) => [
    uniqueIndex('plants_external_id').on(table.organizationId, table.externalPlantId),
    uniqueIndex('plants_ean_cons').on(table.organizationId, table.eanCons),
    uniqueIndex('plants_ean_prod').on(table.organizationId, table.eanProd),
    check('plants_status', oneOf('status', PLANT_STATUSES)),
    check('plants_ean_form', sql.raw(EAN_FORM)),
  ],
);

/** [C-3.1] Secrets are not here: the Site that serves the device holds them. */
export const devices = sqliteTable(
  'devices',
  {
    id: text('id').primaryKey(),
    organizationId: text('organization_id')
      .notNull()
      .references(() => organizations.id),
    plantId: text('plant_id').references(() => plants.id),
    name: text('name').notNull(),
    serialNumber: text('serial_number').notNull(),
    type: text('type', { enum: DEVICE_TYPES }).notNull(),
    authMethod: text('auth_method', { enum: AUTH_METHODS }).notNull().default('MTLS'),
    metadata: text('metadata', { mode: 'json' }).$type<Record<string, unknown>>().notNull().default({}),
    status: text('status', { enum: DEVICE_STATUSES }).notNull().default('PENDING'),
    connectionStatus: text('connection_status', { enum: DEVICE_CONNECTION_STATUSES })
      .notNull()
      .default('UNKNOWN'),
    lastSeenAtMs: integer('last_seen_at_ms'),
    provisionedAtMs: integer('provisioned_at_ms'),
    createdAtMs: integer('created_at_ms').notNull(),
    updatedAtMs: integer('updated_at_ms').notNull().default(0),
    /** When its status became what it is: of two that say so, the later one counts. */
    statusAtMs: integer('status_at_ms').notNull().default(0),
    suspendedAtMs: integer('suspended_at_ms'),
    suspendReason: text('suspend_reason'),
    /** Of the last token that was issued. */
    tokenExpiresAtMs: integer('token_expires_at_ms'),
    /** Until then the secret of before is good, too. */
    hmacGraceUntilMs: integer('hmac_grace_until_ms'),
    /** Whoever provisions it since then; the claim lapses. */
    provisioningAtMs: integer('provisioning_at_ms'),
    /** The object that it is on its way to: a plant's id, or for no plant its own. */
    movingTo: text('moving_to'),
    /** SHA-256 of its certificate, in hex; and of the one before, while that is good. */
    certificateFingerprint: text('certificate_fingerprint'),
    certificateExpiresAtMs: integer('certificate_expires_at_ms'),
    previousFingerprint: text('previous_fingerprint'),
    previousUntilMs: integer('previous_until_ms'),
  },
  (table) => [
    uniqueIndex('devices_serial_number').on(table.organizationId, table.serialNumber),
    index('devices_organization').on(table.organizationId, table.name, table.id),
    index('devices_moving').on(table.movingTo).where(sql`"moving_to" IS NOT NULL`),
    index('devices_plant').on(table.plantId),
    check('devices_type', oneOf('type', DEVICE_TYPES)),
    check('devices_auth_method', oneOf('auth_method', AUTH_METHODS)),
    check('devices_status', oneOf('status', DEVICE_STATUSES)),
    check('devices_connection_status', oneOf('connection_status', DEVICE_CONNECTION_STATUSES)),
  ],
);

/** [C-2.2] These rows are `config.topology.assets[]`: the one source of what a plant consists of. */
export const subDevices = sqliteTable(
  'sub_devices',
  {
    id: text('id').primaryKey(),
    plantId: text('plant_id')
      .notNull()
      .references(() => plants.id),
    externalId: text('external_id').notNull(),
    assetType: text('asset_type', { enum: ASSET_TYPES }).notNull(),
    name: text('name').notNull(),
    status: text('status', { enum: SUB_DEVICE_STATUSES }).notNull().default('UNKNOWN'),
    linkedDeviceId: text('linked_device_id').references(() => devices.id),
    ratedPowerKw: real('rated_power_kw'),
    capacityKwh: real('capacity_kwh'),
    meterRole: text('meter_role', { enum: METER_ROLES }),
    createdAtMs: integer('created_at_ms').notNull(),
  },
  (table) => [
    uniqueIndex('sub_devices_external_id').on(table.plantId, table.externalId),
    uniqueIndex('sub_devices_linked_device').on(table.linkedDeviceId),
    check('sub_devices_asset_type', oneOf('asset_type', ASSET_TYPES)),
    check('sub_devices_status', oneOf('status', SUB_DEVICE_STATUSES)),
    check(
      'sub_devices_meter_role',
      sql.raw(`"meter_role" IS NULL OR "meter_role" IN ('GRID', 'FVE', 'BESS', 'CONSUMPTION')`),
    ),
  ],
);

/** [C-5.1], [C-5.2] Found by the SHA-256 of the key; the signing key is in the Vhost. */
export const apiKeys = sqliteTable(
  'api_keys',
  {
    id: text('id').primaryKey(),
    organizationId: text('organization_id')
      .notNull()
      .references(() => organizations.id),
    keyHash: text('key_hash').notNull(),
    keyPrefix: text('key_prefix').notNull(),
    name: text('name').notNull(),
    partnerId: text('partner_id').notNull(),
    scopes: text('scopes', { mode: 'json' }).$type<string[]>().notNull(),
    /** Null = every plant of the organization. */
    allowedPlantIds: text('allowed_plant_ids', { mode: 'json' }).$type<string[]>(),
    /** CIDR ranges; empty = no restriction. */
    allowedIps: text('allowed_ips', { mode: 'json' }).$type<string[]>().notNull().default([]),
    vhost: text('vhost'),
    expiresAtMs: integer('expires_at_ms'),
    revokedAtMs: integer('revoked_at_ms'),
    lastUsedAtMs: integer('last_used_at_ms'),
    createdBy: text('created_by')
      .notNull()
      .references(() => users.id),
    createdAtMs: integer('created_at_ms').notNull(),
    updatedAtMs: integer('updated_at_ms').notNull(),
    /** [C-5.4] `probing`: refused everywhere but to its own probe. */
    state: text('state', { enum: ['probing', 'active'] })
      .notNull()
      .default('active'),
    /** SHA-256 of the nonce of the probe under way: it opens once. */
    probeHash: text('probe_hash'),
    bundleAcknowledgedAtMs: integer('bundle_acknowledged_at_ms'),
  },
  (table) => [
    uniqueIndex('api_keys_hash').on(table.keyHash),
    index('api_keys_organization').on(table.organizationId, table.createdAtMs),
    check('api_keys_name_length', sql.raw(`length("name") BETWEEN 1 AND 100`)),
    check('api_keys_partner_id_length', sql.raw(`length("partner_id") BETWEEN 1 AND 100`)),
    check(
      'api_keys_scopes_json',
      sql.raw(`json_type("scopes") = 'array' AND json_array_length("scopes") > 0`),
    ),
  ],
);

/**
 * [C-8.4] Append-only, but for `count`: `id` is derived from the cause, so that a repeat writes nothing, or counts up
 * where repeats are to be counted.
 */
export const auditEvents = sqliteTable(
  'audit_events',
  {
    id: text('id').primaryKey(),
    organizationId: text('organization_id').references(() => organizations.id),
    event: text('event').notNull(),
    /** Of a refused connection the user name that was given; of rows from before, the key's prefix. */
    actor: text('actor').notNull(),
    address: text('address'),
    target: text('target'),
    outcome: text('outcome').notNull(),
    details: text('details', { mode: 'json' }).$type<Record<string, unknown>>().notNull().default({}),
    createdAtMs: integer('created_at_ms').notNull(),
    count: integer('count').notNull().default(1),
    actorType: text('actor_type').notNull().default('API_KEY'),
    actorName: text('actor_name'),
    targetType: text('target_type').notNull().default('API_KEY'),
  },
  (table) => [index('audit_events_organization').on(table.organizationId, table.createdAtMs)],
);

/** [C-9] Rules about what plants send; their Sites hold a copy. `plantId`, `deviceId`: at most one of them. */
export const alertRules = sqliteTable(
  'alert_rules',
  {
    id: text('id').primaryKey(),
    organizationId: text('organization_id')
      .notNull()
      .references(() => organizations.id),
    plantId: text('plant_id'),
    deviceId: text('device_id'),
    name: text('name').notNull(),
    severity: text('severity', { enum: ALERT_SEVERITIES }).notNull(),
    metric: text('metric').notNull(),
    operator: text('operator', { enum: ALERT_OPERATORS }).notNull(),
    threshold: real('threshold'),
    forSeconds: integer('for_seconds').notNull(),
    cooldownSeconds: integer('cooldown_seconds').notNull(),
    enabled: integer('enabled', { mode: 'boolean' }).notNull(),
    createdAtMs: integer('created_at_ms').notNull(),
    updatedAtMs: integer('updated_at_ms').notNull(),
  },
  (table) => [
    index('alert_rules_organization').on(table.organizationId, table.createdAtMs),
    check('alert_rules_severity', oneOf('severity', ALERT_SEVERITIES)),
    check('alert_rules_operator', oneOf('operator', ALERT_OPERATORS)),
    check('alert_rules_target', sql.raw(`"plant_id" IS NULL OR "device_id" IS NULL`)),
  ],
);

/** [C-9] What fired. The plant's Site writes it; who acknowledged or resolved it is written here alone. */
export const alerts = sqliteTable(
  'alerts',
  {
    id: text('id').primaryKey(),
    organizationId: text('organization_id')
      .notNull()
      .references(() => organizations.id),
    ruleId: text('rule_id'),
    plantId: text('plant_id'),
    deviceId: text('device_id'),
    type: text('type', { enum: ALERT_TYPES }).notNull(),
    severity: text('severity', { enum: ALERT_SEVERITIES }).notNull(),
    status: text('status', { enum: ALERT_STATUSES }).notNull(),
    message: text('message').notNull(),
    value: real('value'),
    threshold: real('threshold'),
    firstSeenAtMs: integer('first_seen_at_ms').notNull(),
    lastSeenAtMs: integer('last_seen_at_ms').notNull(),
    count: integer('count').notNull(),
    note: text('note'),
    acknowledgedBy: text('acknowledged_by'),
    acknowledgedAtMs: integer('acknowledged_at_ms'),
    resolvedBy: text('resolved_by'),
    resolvedAtMs: integer('resolved_at_ms'),
  },
  (table) => [
    index('alerts_organization').on(table.organizationId, table.firstSeenAtMs),
    index('alerts_resolved').on(table.resolvedAtMs).where(sql`"resolved_at_ms" IS NOT NULL`),
    check('alerts_type', oneOf('type', ALERT_TYPES)),
    check('alerts_severity', oneOf('severity', ALERT_SEVERITIES)),
    check('alerts_status', oneOf('status', ALERT_STATUSES)),
  ],
);

/**
 * Changes on their way to the Sites and Vhosts that hold a copy of them: written with the change, gone when all have
 * taken it.
 */
export const registryChanges = sqliteTable(
  'registry_changes',
  {
    id: text('id').primaryKey(),
    organizationId: text('organization_id').notNull(),
    version: integer('version').notNull(),
    /** Of those that have not taken it yet: `site:<id>`, `vhost:<id>`. */
    targets: text('targets', { mode: 'json' }).$type<string[]>().notNull(),
    /** When it is to be tried again. */
    dueAtMs: integer('due_at_ms').notNull(),
    createdAtMs: integer('created_at_ms').notNull(),
  },
  (table) => [index('registry_changes_due').on(table.dueAtMs)],
);
