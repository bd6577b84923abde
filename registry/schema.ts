/**
 * The D1 tables: the registry of organizations, users, keys, plants and devices, with sessions, mails, alerts and
 * audit events. Telemetry and commands are not stored in D1: the Site stores telemetry, the command log,
 * schedules, the configuration and device secrets, and the Vhost stores queues and the signing key. Instants are
 * epoch milliseconds. The SQL migrations beside this file are generated from it and are append-only.
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
import { SIGHTS } from '../protocol/api-key-record.ts';
import type { TemplateAction, TemplateSignal } from '../protocol/device-template.ts';
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
import type { EventKind } from '../protocol/routing-keys.ts';
import { WEBHOOK_REASONS, WEBHOOK_STATUSES } from '../protocol/webhook.ts';

/** What a mailed token is for. */
export const TOKEN_PURPOSES = ['VERIFY_EMAIL', 'RESET_PASSWORD', 'CHANGE_EMAIL'] as const;

/** `column IN (…)` for a CHECK constraint. The values need no escaping: they are from our own closed lists. */
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
    /** Incremented by each change to data of which the organization's Sites and Vhosts hold a copy. */
    registryVersion: integer('registry_version').notNull().default(1),
    /** The total of a device list, so that a list does not have to read all rows. */
    deviceCount: integer('device_count').notNull().default(0),
    /** [C-14.2] The ceilings that the operator has set for this organization. */
    ceilings: text('ceilings', { mode: 'json' }).$type<Record<string, number>>().notNull().default({}),
    /** The number of its audit events. Triggers keep it, so that a list does not have to read all rows. */
    auditCount: integer('audit_count').notNull().default(0),
    /** The number of its alerts, kept in the same way. */
    alertCount: integer('alert_count').notNull().default(0),
    /** While this is set, the organization's keys, members and devices are refused. */
    suspendedAtMs: integer('suspended_at_ms'),
    /**
     * When the operator deleted the organization. Housekeeping then deletes the organization's keys, plants,
     * devices and alerts. This row stays, so that no other organization can get its slug.
     */
    deletedAtMs: integer('deleted_at_ms'),
  },
  (table) => [
    uniqueIndex('organizations_slug').on(table.slug),
    index('organizations_deleted')
      .on(table.deletedAtMs)
      .where(sql`"deleted_at_ms" IS NOT NULL AND "name" <> ''`),
    check(
      'organizations_slug_form',
      sql.raw(
        `"slug" NOT GLOB '*[^a-z0-9-]*' AND "slug" NOT GLOB '-*' AND "slug" NOT GLOB '*-' AND length("slug") BETWEEN 1 AND 40`,
      ),
    ),
    check('organizations_settings_json', sql.raw(`json_valid("settings")`)),
  ],
);

/** `passwordHash` is null once the account is deleted. */
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
    /**
     * [C-14.1] When the user proved with a mailed token that the address is theirs, or when the operator created
     * the account and vouched for it; null until then.
     */
    provedAtMs: integer('proved_at_ms'),
    /**
     * When the operator deleted the account. The row then has no personal data. It stays, because API keys
     * refer to the user who created them.
     */
    deletedAtMs: integer('deleted_at_ms'),
  },
  (table) => [
    uniqueIndex('users_email').on(table.email),
    index('users_unproved').on(table.createdAtMs).where(sql`"proved_at_ms" IS NULL`),
    check('users_email_lower', sql.raw(`"email" = lower("email")`)),
  ],
);

/**
 * [C-1.4] A login and its refreshes. Each refresh token contains its generation. Only the newest generation
 * is valid; the use of an older one ends the session, because the token may be stolen.
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
    /** When the session was opened or last refreshed. */
    lastUsedAtMs: integer('last_used_at_ms').notNull(),
    userAgent: text('user_agent'),
  },
  (table) => [
    index('sessions_user').on(table.userId, table.createdAtMs),
    index('sessions_expiry').on(table.expiresAtMs),
  ],
);

/**
 * [C-14.4] Failed logins by e-mail address, registered or not, and client network; and by e-mail address alone, with
 * `*` as the network. Checks of the password inside a session have the session as their network. `firstAtMs`: when
 * the present window of failures began.
 */
export const loginFailures = sqliteTable(
  'login_failures',
  {
    email: text('email').notNull(),
    network: text('network').notNull(),
    failures: integer('failures').notNull(),
    firstAtMs: integer('first_at_ms').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.email, table.network] }),
    index('login_failures_first').on(table.firstAtMs),
  ],
);

/**
 * [C-11.1] Tokens that were mailed to a person, at most one of each purpose. `tokenHash`: SHA-256 of the token; `email`:
 * the address that it was mailed to, and that it proves.
 */
export const accountTokens = sqliteTable(
  'account_tokens',
  {
    tokenHash: text('token_hash').primaryKey(),
    userId: text('user_id')
      .notNull()
      .references(() => users.id),
    purpose: text('purpose', { enum: TOKEN_PURPOSES }).notNull(),
    email: text('email').notNull(),
    createdAtMs: integer('created_at_ms').notNull(),
    expiresAtMs: integer('expires_at_ms').notNull(),
  },
  (table) => [
    uniqueIndex('account_tokens_user').on(table.userId, table.purpose),
    index('account_tokens_expiry').on(table.expiresAtMs),
    check('account_tokens_purpose', oneOf('purpose', TOKEN_PURPOSES)),
  ],
);

/**
 * [C-11.1] The outbox of mail. `sealed`: recipient, subject and text, encrypted because the text may contain
 * a token. `dueAtMs`: when the next try is due; while a try is running, the time after which another one may
 * begin.
 */
export const mails = sqliteTable(
  'mails',
  {
    id: text('id').primaryKey(),
    kind: text('kind').notNull(),
    sealed: text('sealed').notNull(),
    /** The organization that gets the audit event if the mail cannot be delivered; null: the event has none. */
    organizationId: text('organization_id'),
    userId: text('user_id'),
    failures: integer('failures').notNull().default(0),
    dueAtMs: integer('due_at_ms').notNull(),
    createdAtMs: integer('created_at_ms').notNull(),
    /** The domain of the recipient: each has a share of the queue [C-15.5]. */
    lane: text('lane').notNull().default(''),
  },
  (table) => [index('mails_due').on(table.dueAtMs), index('mails_lane').on(table.lane)],
);

/** The mails of the last day of requests that not only the owner of the address can make [C-15.5]. */
export const mailShares = sqliteTable(
  'mail_shares',
  {
    id: text('id').primaryKey(),
    /** SHA-256 of the address. */
    address: text('address').notNull(),
    atMs: integer('at_ms').notNull(),
  },
  (table) => [
    index('mail_shares_address').on(table.address, table.atMs),
    index('mail_shares_at').on(table.atMs),
  ],
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

/**
 * [C-11.2] A person becomes a member by accepting an invitation. `sends`: how often it was sent, each time with another
 * token; `tokenHash`: SHA-256 of the newest one.
 */
export const invitations = sqliteTable(
  'invitations',
  {
    id: text('id').primaryKey(),
    organizationId: text('organization_id')
      .notNull()
      .references(() => organizations.id),
    email: text('email').notNull(),
    role: text('role', { enum: ROLES }).notNull(),
    tokenHash: text('token_hash').notNull(),
    status: text('status', { enum: ['PENDING', 'ACCEPTED', 'REVOKED'] }).notNull(),
    createdBy: text('created_by').notNull(),
    createdAtMs: integer('created_at_ms').notNull(),
    sentAtMs: integer('sent_at_ms').notNull(),
    sends: integer('sends').notNull(),
    expiresAtMs: integer('expires_at_ms').notNull(),
  },
  (table) => [
    uniqueIndex('invitations_token').on(table.tokenHash),
    uniqueIndex('invitations_pending').on(table.organizationId, table.email).where(sql`"status" = 'PENDING'`),
    index('invitations_organization').on(table.organizationId, table.createdAtMs),
    index('invitations_sent').on(table.organizationId, table.sentAtMs),
    index('invitations_expiry').on(table.expiresAtMs),
    check('invitations_role', oneOf('role', ROLES)),
    check('invitations_status', oneOf('status', ['PENDING', 'ACCEPTED', 'REVOKED'])),
  ],
);

/** Sessions in which the operator reads what an organization sees. `tokenHash`: SHA-256 of the token. */
export const supportSessions = sqliteTable(
  'support_sessions',
  {
    id: text('id').primaryKey(),
    organizationId: text('organization_id')
      .notNull()
      .references(() => organizations.id),
    tokenHash: text('token_hash').notNull(),
    reason: text('reason').notNull(),
    createdAtMs: integer('created_at_ms').notNull(),
    expiresAtMs: integer('expires_at_ms').notNull(),
  },
  (table) => [
    uniqueIndex('support_sessions_token').on(table.tokenHash),
    index('support_sessions_organization').on(table.organizationId, table.createdAtMs),
    index('support_sessions_expiry').on(table.expiresAtMs),
  ],
);

/** [C-2.1] The plant's Site writes `status` when it changes. */
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

/**
 * [C-11.6] The device templates that organizations write; those of the platform are in `protocol/system-template.ts`.
 * A template that a device or sub-device refers to cannot be deleted.
 */
export const deviceTemplates = sqliteTable(
  'device_templates',
  {
    id: text('id').primaryKey(),
    organizationId: text('organization_id')
      .notNull()
      .references(() => organizations.id),
    name: text('name').notNull(),
    assetType: text('asset_type', { enum: ASSET_TYPES }).notNull(),
    manufacturer: text('manufacturer'),
    model: text('model'),
    signals: text('signals', { mode: 'json' }).$type<TemplateSignal[]>().notNull(),
    actions: text('actions', { mode: 'json' }).$type<TemplateAction[]>().notNull(),
    createdAtMs: integer('created_at_ms').notNull(),
    updatedAtMs: integer('updated_at_ms').notNull(),
  },
  (table) => [
    index('device_templates_organization').on(table.organizationId, table.name, table.id),
    check('device_templates_asset_type', oneOf('asset_type', ASSET_TYPES)),
  ],
);

/** The template of a device or sub-device: at most one of the two is set. */
const templateColumns = {
  templateId: text('template_id').references(() => deviceTemplates.id),
  /** The asset type of a template of the platform. */
  systemTemplate: text('system_template', { enum: ASSET_TYPES }),
};

/** [C-3.1] The Site that serves the device stores its secrets. */
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
    /** When the status changed. A write with an older time is ignored. */
    statusAtMs: integer('status_at_ms').notNull().default(0),
    suspendedAtMs: integer('suspended_at_ms'),
    suspendReason: text('suspend_reason'),
    /** Expiry of the last issued token. */
    tokenExpiresAtMs: integer('token_expires_at_ms'),
    /** When the previous secret expires. */
    hmacGraceUntilMs: integer('hmac_grace_until_ms'),
    /** When a request claimed the device to provision it. The claim expires. */
    provisioningAtMs: integer('provisioning_at_ms'),
    /** The id of the Site the device moves to: a plant's id, or the device's own id for no plant. */
    movingTo: text('moving_to'),
    /** SHA-256 of the certificate in hex. `previousFingerprint` is accepted until `previousUntilMs`. */
    certificateFingerprint: text('certificate_fingerprint'),
    certificateExpiresAtMs: integer('certificate_expires_at_ms'),
    previousFingerprint: text('previous_fingerprint'),
    previousUntilMs: integer('previous_until_ms'),
    /** The certificate with which the device connected last. Once it is replaced, it is accepted until `usedUntilMs`. */
    usedFingerprint: text('used_fingerprint'),
    usedUntilMs: integer('used_until_ms'),
    ...templateColumns,
  },
  (table) => [
    uniqueIndex('devices_serial_number').on(table.organizationId, table.serialNumber),
    index('devices_organization').on(table.organizationId, table.name, table.id),
    index('devices_moving').on(table.movingTo).where(sql`"moving_to" IS NOT NULL`),
    index('devices_plant').on(table.plantId),
    index('devices_template').on(table.templateId).where(sql`"template_id" IS NOT NULL`),
    check('devices_type', oneOf('type', DEVICE_TYPES)),
    check('devices_auth_method', oneOf('auth_method', AUTH_METHODS)),
    check('devices_status', oneOf('status', DEVICE_STATUSES)),
    check('devices_connection_status', oneOf('connection_status', DEVICE_CONNECTION_STATUSES)),
  ],
);

/** [C-2.2] These rows are `config.topology.assets[]`, the only source of a plant's topology. */
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
    ...templateColumns,
  },
  (table) => [
    uniqueIndex('sub_devices_external_id').on(table.plantId, table.externalId),
    uniqueIndex('sub_devices_linked_device').on(table.linkedDeviceId),
    index('sub_devices_template').on(table.templateId).where(sql`"template_id" IS NOT NULL`),
    check('sub_devices_asset_type', oneOf('asset_type', ASSET_TYPES)),
    check('sub_devices_status', oneOf('status', SUB_DEVICE_STATUSES)),
    check(
      'sub_devices_meter_role',
      sql.raw(`"meter_role" IS NULL OR "meter_role" IN ('GRID', 'FVE', 'BESS', 'CONSUMPTION')`),
    ),
  ],
);

/** [C-5.1], [C-5.2] A key is looked up by its SHA-256. The Vhost of a key with broker scopes has its signing key. */
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
    /** [C-5.4] `probing`: the key is refused everywhere except in its own connection test. */
    state: text('state', { enum: ['probing', 'active'] })
      .notNull()
      .default('active'),
    /** SHA-256 of the nonce of the current connection test. The nonce is valid once. */
    probeHash: text('probe_hash'),
    bundleAcknowledgedAtMs: integer('bundle_acknowledged_at_ms'),
    /** Whose commands the key reads [C-15.1]. */
    sees: text('sees', { enum: SIGHTS }).notNull().default('PARTNER'),
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
 * [C-8.4] A row changes only when its event repeats (`count` and `details`) or personal data of a deleted user is
 * removed; retention deletes it. Where an event may be written twice, `id` is derived from its cause: the second
 * write then adds no row, and increments `count` if the event counts repeats.
 */
export const auditEvents = sqliteTable(
  'audit_events',
  {
    id: text('id').primaryKey(),
    organizationId: text('organization_id').references(() => organizations.id),
    event: text('event').notNull(),
    /** The actor's id; for a refused connection without a known key its user name. */
    actor: text('actor').notNull(),
    address: text('address'),
    target: text('target'),
    outcome: text('outcome').notNull(),
    details: text('details', { mode: 'json' }).$type<Record<string, unknown>>().notNull().default({}),
    createdAtMs: integer('created_at_ms').notNull(),
    count: integer('count').notNull().default(1),
    actorType: text('actor_type').notNull().default('API_KEY'),
    /** Null for a user: their address is in the table of users only. */
    actorName: text('actor_name'),
    targetType: text('target_type').notNull().default('API_KEY'),
  },
  (table) => [
    index('audit_events_organization').on(table.organizationId, table.createdAtMs),
    index('audit_events_event').on(table.organizationId, table.event, table.createdAtMs),
    index('audit_events_actor').on(table.actor, table.createdAtMs),
    index('audit_events_actor_event').on(table.actor, table.event, table.createdAtMs),
    // A deleted user's address is removed from the details.
    index('audit_events_email')
      .on(sql`("details" ->> '$.email')`)
      .where(sql`("details" ->> '$.email') IS NOT NULL`),
  ],
);

/** [C-9] Alert rules; Sites hold a copy. At most one of `plantId` and `deviceId` is set. */
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
    /** The members who get a mail when an alert begins and ends. */
    mailTo: text('mail_to', { mode: 'json' }).$type<string[]>().notNull().default([]),
  },
  (table) => [
    index('alert_rules_organization').on(table.organizationId, table.createdAtMs),
    check('alert_rules_severity', oneOf('severity', ALERT_SEVERITIES)),
    check('alert_rules_operator', oneOf('operator', ALERT_OPERATORS)),
    check('alert_rules_target', sql.raw(`"plant_id" IS NULL OR "device_id" IS NULL`)),
  ],
);

/**
 * [C-9] Alerts that rules opened. The plant's Site writes them; the Worker writes which user or API key
 * acknowledged or resolved one, and changes of its note and severity.
 */
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
    /** What the next mail about the alert reports, 1 its begin, 2 its end; null: no mail is due. Triggers set it. */
    mailDue: integer('mail_due'),
  },
  (table) => [
    index('alerts_mail_due').on(table.firstSeenAtMs).where(sql`"mail_due" IS NOT NULL`),
    index('alerts_organization').on(table.organizationId, table.firstSeenAtMs),
    // Pages of the console read the open alerts again and again, beside thousands of resolved ones.
    index('alerts_open').on(table.organizationId, table.firstSeenAtMs).where(sql`"status" <> 'RESOLVED'`),
    index('alerts_resolved_first')
      .on(table.organizationId, table.resolvedAtMs)
      .where(sql`"status" = 'RESOLVED'`),
    index('alerts_resolved').on(table.resolvedAtMs).where(sql`"resolved_at_ms" IS NOT NULL`),
    check('alerts_type', oneOf('type', ALERT_TYPES)),
    check('alerts_severity', oneOf('severity', ALERT_SEVERITIES)),
    check('alerts_status', oneOf('status', ALERT_STATUSES)),
  ],
);

/**
 * [C-12.4] Webhooks. The Vhost of the key has a copy of what it needs to post events; it stores how far they are
 * delivered, and writes the status here.
 */
export const webhooks = sqliteTable(
  'webhooks',
  {
    id: text('id').primaryKey(),
    organizationId: text('organization_id')
      .notNull()
      .references(() => organizations.id),
    keyId: text('key_id').notNull(),
    url: text('url').notNull(),
    types: text('types', { mode: 'json' }).$type<EventKind[]>().notNull(),
    /** Null = every site that the key may see. */
    siteIds: text('site_ids', { mode: 'json' }).$type<string[]>(),
    description: text('description').notNull(),
    secretSealed: text('secret_sealed').notNull(),
    /** The secret before the last rotation, which signs, too, until `previousUntilMs`. */
    previousSealed: text('previous_sealed'),
    previousUntilMs: integer('previous_until_ms'),
    status: text('status', { enum: WEBHOOK_STATUSES }).notNull(),
    statusReason: text('status_reason', { enum: WEBHOOK_REASONS }),
    statusAtMs: integer('status_at_ms').notNull(),
    /** The alert that says that the webhook was disabled; null while it is not. */
    alertId: text('alert_id'),
    /** 1: the admins must get a mail that the webhook was disabled. */
    mailDue: integer('mail_due'),
    createdAtMs: integer('created_at_ms').notNull(),
    updatedAtMs: integer('updated_at_ms').notNull(),
    /** The URL, written in one way. */
    urlKey: text('url_key').notNull().default(''),
  },
  (table) => [
    index('webhooks_organization').on(table.organizationId, table.createdAtMs),
    index('webhooks_key').on(table.keyId),
    index('webhooks_url').on(table.organizationId, table.urlKey),
    index('webhooks_mail_due').on(table.statusAtMs).where(sql`"mail_due" IS NOT NULL`),
    check('webhooks_status', oneOf('status', WEBHOOK_STATUSES)),
  ],
);

/**
 * Registry changes that not all Sites and Vhosts with a copy have applied yet. A row is inserted together
 * with the change and deleted when all targets have applied it.
 */
export const registryChanges = sqliteTable(
  'registry_changes',
  {
    id: text('id').primaryKey(),
    organizationId: text('organization_id').notNull(),
    version: integer('version').notNull(),
    /** The objects that have not applied the change yet: `site:<id>`, `vhost:<id>`. */
    targets: text('targets', { mode: 'json' }).$type<string[]>().notNull(),
    /** When the next retry is due. */
    dueAtMs: integer('due_at_ms').notNull(),
    createdAtMs: integer('created_at_ms').notNull(),
  },
  (table) => [index('registry_changes_due').on(table.dueAtMs)],
);
