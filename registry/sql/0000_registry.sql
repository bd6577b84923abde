CREATE TABLE `account_tokens` (
	`token_hash` text PRIMARY KEY NOT NULL,
	`user_id` text NOT NULL,
	`purpose` text NOT NULL,
	`email` text NOT NULL,
	`created_at_ms` integer NOT NULL,
	`expires_at_ms` integer NOT NULL,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "account_tokens_purpose" CHECK("purpose" IN ('VERIFY_EMAIL', 'RESET_PASSWORD', 'CHANGE_EMAIL'))
);
--> statement-breakpoint
CREATE UNIQUE INDEX `account_tokens_user` ON `account_tokens` (`user_id`,`purpose`);--> statement-breakpoint
CREATE INDEX `account_tokens_expiry` ON `account_tokens` (`expires_at_ms`);--> statement-breakpoint
CREATE TABLE `alert_rules` (
	`id` text PRIMARY KEY NOT NULL,
	`organization_id` text NOT NULL,
	`plant_id` text,
	`device_id` text,
	`name` text NOT NULL,
	`severity` text NOT NULL,
	`metric` text NOT NULL,
	`operator` text NOT NULL,
	`threshold` real,
	`for_seconds` integer NOT NULL,
	`cooldown_seconds` integer NOT NULL,
	`enabled` integer NOT NULL,
	`created_at_ms` integer NOT NULL,
	`updated_at_ms` integer NOT NULL,
	`mail_to` text DEFAULT '[]' NOT NULL,
	FOREIGN KEY (`organization_id`) REFERENCES `organizations`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "alert_rules_severity" CHECK("severity" IN ('INFO', 'WARNING', 'CRITICAL')),
	CONSTRAINT "alert_rules_operator" CHECK("operator" IN ('GT', 'GTE', 'LT', 'LTE', 'EQ', 'NE', 'ABSENT')),
	CONSTRAINT "alert_rules_target" CHECK("plant_id" IS NULL OR "device_id" IS NULL)
);
--> statement-breakpoint
CREATE INDEX `alert_rules_organization` ON `alert_rules` (`organization_id`,`created_at_ms`);--> statement-breakpoint
CREATE TABLE `alerts` (
	`id` text PRIMARY KEY NOT NULL,
	`organization_id` text NOT NULL,
	`rule_id` text,
	`plant_id` text,
	`device_id` text,
	`type` text NOT NULL,
	`severity` text NOT NULL,
	`status` text NOT NULL,
	`message` text NOT NULL,
	`value` real,
	`threshold` real,
	`first_seen_at_ms` integer NOT NULL,
	`last_seen_at_ms` integer NOT NULL,
	`count` integer NOT NULL,
	`note` text,
	`acknowledged_by` text,
	`acknowledged_at_ms` integer,
	`resolved_by` text,
	`resolved_at_ms` integer,
	`mail_due` integer,
	FOREIGN KEY (`organization_id`) REFERENCES `organizations`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "alerts_type" CHECK("type" IN ('THRESHOLD', 'ABSENT', 'WEBHOOK')),
	CONSTRAINT "alerts_severity" CHECK("severity" IN ('INFO', 'WARNING', 'CRITICAL')),
	CONSTRAINT "alerts_status" CHECK("status" IN ('ACTIVE', 'ACKNOWLEDGED', 'RESOLVED'))
);
--> statement-breakpoint
CREATE INDEX `alerts_mail_due` ON `alerts` (`first_seen_at_ms`) WHERE "mail_due" IS NOT NULL;--> statement-breakpoint
CREATE INDEX `alerts_organization` ON `alerts` (`organization_id`,`first_seen_at_ms`);--> statement-breakpoint
CREATE INDEX `alerts_open` ON `alerts` (`organization_id`,`first_seen_at_ms`) WHERE "status" <> 'RESOLVED';--> statement-breakpoint
CREATE INDEX `alerts_resolved_first` ON `alerts` (`organization_id`,`resolved_at_ms`) WHERE "status" = 'RESOLVED';--> statement-breakpoint
CREATE INDEX `alerts_resolved` ON `alerts` (`resolved_at_ms`) WHERE "resolved_at_ms" IS NOT NULL;--> statement-breakpoint
CREATE TABLE `api_keys` (
	`id` text PRIMARY KEY NOT NULL,
	`organization_id` text NOT NULL,
	`key_hash` text NOT NULL,
	`key_prefix` text NOT NULL,
	`name` text NOT NULL,
	`partner_id` text NOT NULL,
	`scopes` text NOT NULL,
	`allowed_plant_ids` text,
	`allowed_ips` text DEFAULT '[]' NOT NULL,
	`vhost` text,
	`expires_at_ms` integer,
	`revoked_at_ms` integer,
	`last_used_at_ms` integer,
	`created_by` text NOT NULL,
	`created_at_ms` integer NOT NULL,
	`updated_at_ms` integer NOT NULL,
	`state` text DEFAULT 'active' NOT NULL,
	`probe_hash` text,
	`bundle_acknowledged_at_ms` integer,
	`sees` text DEFAULT 'PARTNER' NOT NULL,
	FOREIGN KEY (`organization_id`) REFERENCES `organizations`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`created_by`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "api_keys_name_length" CHECK(length("name") BETWEEN 1 AND 100),
	CONSTRAINT "api_keys_partner_id_length" CHECK(length("partner_id") BETWEEN 1 AND 100),
	CONSTRAINT "api_keys_scopes_json" CHECK(json_type("scopes") = 'array' AND json_array_length("scopes") > 0)
);
--> statement-breakpoint
CREATE UNIQUE INDEX `api_keys_hash` ON `api_keys` (`key_hash`);--> statement-breakpoint
CREATE INDEX `api_keys_organization` ON `api_keys` (`organization_id`,`created_at_ms`);--> statement-breakpoint
CREATE TABLE `audit_events` (
	`id` text PRIMARY KEY NOT NULL,
	`organization_id` text,
	`event` text NOT NULL,
	`actor` text NOT NULL,
	`address` text,
	`target` text,
	`outcome` text NOT NULL,
	`details` text DEFAULT '{}' NOT NULL,
	`created_at_ms` integer NOT NULL,
	`count` integer DEFAULT 1 NOT NULL,
	`actor_type` text DEFAULT 'API_KEY' NOT NULL,
	`actor_name` text,
	`target_type` text DEFAULT 'API_KEY' NOT NULL,
	FOREIGN KEY (`organization_id`) REFERENCES `organizations`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `audit_events_organization` ON `audit_events` (`organization_id`,`created_at_ms`);--> statement-breakpoint
CREATE INDEX `audit_events_event` ON `audit_events` (`organization_id`,`event`,`created_at_ms`);--> statement-breakpoint
CREATE INDEX `audit_events_actor` ON `audit_events` (`actor`,`created_at_ms`);--> statement-breakpoint
CREATE INDEX `audit_events_actor_event` ON `audit_events` (`actor`,`event`,`created_at_ms`);--> statement-breakpoint
CREATE INDEX `audit_events_email` ON `audit_events` (("details" ->> '$.email')) WHERE ("details" ->> '$.email') IS NOT NULL;--> statement-breakpoint
CREATE TABLE `device_templates` (
	`id` text PRIMARY KEY NOT NULL,
	`organization_id` text NOT NULL,
	`name` text NOT NULL,
	`asset_type` text NOT NULL,
	`manufacturer` text,
	`model` text,
	`signals` text NOT NULL,
	`actions` text NOT NULL,
	`created_at_ms` integer NOT NULL,
	`updated_at_ms` integer NOT NULL,
	FOREIGN KEY (`organization_id`) REFERENCES `organizations`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "device_templates_asset_type" CHECK("asset_type" IN ('BESS', 'FVE', 'METER', 'HEAT_PUMP', 'EV_CHARGER', 'THERMOSTAT', 'INVERTER', 'GENERIC'))
);
--> statement-breakpoint
CREATE INDEX `device_templates_organization` ON `device_templates` (`organization_id`,`name`,`id`);--> statement-breakpoint
CREATE TABLE `devices` (
	`id` text PRIMARY KEY NOT NULL,
	`organization_id` text NOT NULL,
	`plant_id` text,
	`name` text NOT NULL,
	`serial_number` text NOT NULL,
	`type` text NOT NULL,
	`auth_method` text DEFAULT 'MTLS' NOT NULL,
	`metadata` text DEFAULT '{}' NOT NULL,
	`status` text DEFAULT 'PENDING' NOT NULL,
	`connection_status` text DEFAULT 'UNKNOWN' NOT NULL,
	`last_seen_at_ms` integer,
	`provisioned_at_ms` integer,
	`created_at_ms` integer NOT NULL,
	`updated_at_ms` integer DEFAULT 0 NOT NULL,
	`status_at_ms` integer DEFAULT 0 NOT NULL,
	`suspended_at_ms` integer,
	`suspend_reason` text,
	`token_expires_at_ms` integer,
	`hmac_grace_until_ms` integer,
	`provisioning_at_ms` integer,
	`moving_to` text,
	`certificate_fingerprint` text,
	`certificate_expires_at_ms` integer,
	`previous_fingerprint` text,
	`previous_until_ms` integer,
	`used_fingerprint` text,
	`used_until_ms` integer,
	`template_id` text,
	`system_template` text,
	FOREIGN KEY (`organization_id`) REFERENCES `organizations`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`plant_id`) REFERENCES `plants`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`template_id`) REFERENCES `device_templates`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "devices_type" CHECK("type" IN ('SENSOR', 'ACTUATOR', 'GATEWAY', 'CONTROLLER')),
	CONSTRAINT "devices_auth_method" CHECK("auth_method" IN ('MTLS', 'TOKEN')),
	CONSTRAINT "devices_status" CHECK("status" IN ('PENDING', 'ACTIVE', 'SUSPENDED', 'DECOMMISSIONED')),
	CONSTRAINT "devices_connection_status" CHECK("connection_status" IN ('ONLINE', 'OFFLINE', 'MAINTENANCE', 'ERROR', 'UNKNOWN'))
);
--> statement-breakpoint
CREATE UNIQUE INDEX `devices_serial_number` ON `devices` (`organization_id`,`serial_number`);--> statement-breakpoint
CREATE INDEX `devices_organization` ON `devices` (`organization_id`,`name`,`id`);--> statement-breakpoint
CREATE INDEX `devices_moving` ON `devices` (`moving_to`) WHERE "moving_to" IS NOT NULL;--> statement-breakpoint
CREATE INDEX `devices_plant` ON `devices` (`plant_id`);--> statement-breakpoint
CREATE INDEX `devices_template` ON `devices` (`template_id`) WHERE "template_id" IS NOT NULL;--> statement-breakpoint
CREATE TABLE `invitations` (
	`id` text PRIMARY KEY NOT NULL,
	`organization_id` text NOT NULL,
	`email` text NOT NULL,
	`role` text NOT NULL,
	`token_hash` text NOT NULL,
	`status` text NOT NULL,
	`created_by` text NOT NULL,
	`created_at_ms` integer NOT NULL,
	`sent_at_ms` integer NOT NULL,
	`sends` integer NOT NULL,
	`expires_at_ms` integer NOT NULL,
	FOREIGN KEY (`organization_id`) REFERENCES `organizations`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "invitations_role" CHECK("role" IN ('VIEWER', 'OPERATOR', 'ADMIN', 'ORG_ADMIN')),
	CONSTRAINT "invitations_status" CHECK("status" IN ('PENDING', 'ACCEPTED', 'REVOKED'))
);
--> statement-breakpoint
CREATE UNIQUE INDEX `invitations_token` ON `invitations` (`token_hash`);--> statement-breakpoint
CREATE UNIQUE INDEX `invitations_pending` ON `invitations` (`organization_id`,`email`) WHERE "status" = 'PENDING';--> statement-breakpoint
CREATE INDEX `invitations_organization` ON `invitations` (`organization_id`,`created_at_ms`);--> statement-breakpoint
CREATE INDEX `invitations_sent` ON `invitations` (`organization_id`,`sent_at_ms`);--> statement-breakpoint
CREATE INDEX `invitations_expiry` ON `invitations` (`expires_at_ms`);--> statement-breakpoint
CREATE TABLE `login_failures` (
	`email` text NOT NULL,
	`network` text NOT NULL,
	`failures` integer NOT NULL,
	`first_at_ms` integer NOT NULL,
	PRIMARY KEY(`email`, `network`)
);
--> statement-breakpoint
CREATE INDEX `login_failures_first` ON `login_failures` (`first_at_ms`);--> statement-breakpoint
CREATE TABLE `mail_shares` (
	`id` text PRIMARY KEY NOT NULL,
	`address` text NOT NULL,
	`at_ms` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `mail_shares_address` ON `mail_shares` (`address`,`at_ms`);--> statement-breakpoint
CREATE INDEX `mail_shares_at` ON `mail_shares` (`at_ms`);--> statement-breakpoint
CREATE TABLE `mails` (
	`id` text PRIMARY KEY NOT NULL,
	`kind` text NOT NULL,
	`sealed` text NOT NULL,
	`organization_id` text,
	`user_id` text,
	`failures` integer DEFAULT 0 NOT NULL,
	`due_at_ms` integer NOT NULL,
	`created_at_ms` integer NOT NULL,
	`lane` text DEFAULT '' NOT NULL
);
--> statement-breakpoint
CREATE INDEX `mails_due` ON `mails` (`due_at_ms`);--> statement-breakpoint
CREATE INDEX `mails_lane` ON `mails` (`lane`);--> statement-breakpoint
CREATE TABLE `memberships` (
	`organization_id` text NOT NULL,
	`user_id` text NOT NULL,
	`role` text NOT NULL,
	`created_at_ms` integer NOT NULL,
	PRIMARY KEY(`organization_id`, `user_id`),
	FOREIGN KEY (`organization_id`) REFERENCES `organizations`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "memberships_role" CHECK("role" IN ('VIEWER', 'OPERATOR', 'ADMIN', 'ORG_ADMIN'))
);
--> statement-breakpoint
CREATE INDEX `memberships_user` ON `memberships` (`user_id`);--> statement-breakpoint
CREATE TABLE `organizations` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`slug` text NOT NULL,
	`settings` text DEFAULT '{}' NOT NULL,
	`created_at_ms` integer NOT NULL,
	`registry_version` integer DEFAULT 1 NOT NULL,
	`device_count` integer DEFAULT 0 NOT NULL,
	`ceilings` text DEFAULT '{}' NOT NULL,
	`audit_count` integer DEFAULT 0 NOT NULL,
	`alert_count` integer DEFAULT 0 NOT NULL,
	`suspended_at_ms` integer,
	`deleted_at_ms` integer,
	CONSTRAINT "organizations_slug_form" CHECK("slug" NOT GLOB '*[^a-z0-9-]*' AND "slug" NOT GLOB '-*' AND "slug" NOT GLOB '*-' AND length("slug") BETWEEN 1 AND 40),
	CONSTRAINT "organizations_settings_json" CHECK(json_valid("settings"))
);
--> statement-breakpoint
CREATE UNIQUE INDEX `organizations_slug` ON `organizations` (`slug`);--> statement-breakpoint
CREATE INDEX `organizations_deleted` ON `organizations` (`deleted_at_ms`) WHERE "deleted_at_ms" IS NOT NULL AND "name" <> '';--> statement-breakpoint
CREATE TABLE `plants` (
	`id` text PRIMARY KEY NOT NULL,
	`organization_id` text NOT NULL,
	`name` text NOT NULL,
	`external_plant_id` text,
	`ean_cons` text,
	`ean_prod` text,
	`timezone` text DEFAULT 'UTC' NOT NULL,
	`status` text DEFAULT 'PENDING' NOT NULL,
	`created_at_ms` integer NOT NULL,
	FOREIGN KEY (`organization_id`) REFERENCES `organizations`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "plants_status" CHECK("status" IN ('PENDING', 'ONLINE', 'DEGRADED', 'OFFLINE')),
	CONSTRAINT "plants_ean_form" CHECK(("ean_cons" IS NULL OR (length("ean_cons") = 18 AND "ean_cons" NOT GLOB '*[^0-9]*')) AND ("ean_prod" IS NULL OR (length("ean_prod") = 18 AND "ean_prod" NOT GLOB '*[^0-9]*')))
);
--> statement-breakpoint
CREATE UNIQUE INDEX `plants_external_id` ON `plants` (`organization_id`,`external_plant_id`);--> statement-breakpoint
CREATE UNIQUE INDEX `plants_ean_cons` ON `plants` (`organization_id`,`ean_cons`);--> statement-breakpoint
CREATE UNIQUE INDEX `plants_ean_prod` ON `plants` (`organization_id`,`ean_prod`);--> statement-breakpoint
CREATE TABLE `registry_changes` (
	`id` text PRIMARY KEY NOT NULL,
	`organization_id` text NOT NULL,
	`version` integer NOT NULL,
	`targets` text NOT NULL,
	`due_at_ms` integer NOT NULL,
	`created_at_ms` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `registry_changes_due` ON `registry_changes` (`due_at_ms`);--> statement-breakpoint
CREATE TABLE `sessions` (
	`id` text PRIMARY KEY NOT NULL,
	`user_id` text NOT NULL,
	`generation` integer DEFAULT 1 NOT NULL,
	`created_at_ms` integer NOT NULL,
	`expires_at_ms` integer NOT NULL,
	`revoked_at_ms` integer,
	`address` text,
	`last_used_at_ms` integer NOT NULL,
	`user_agent` text,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `sessions_user` ON `sessions` (`user_id`,`created_at_ms`);--> statement-breakpoint
CREATE INDEX `sessions_expiry` ON `sessions` (`expires_at_ms`);--> statement-breakpoint
CREATE TABLE `sub_devices` (
	`id` text PRIMARY KEY NOT NULL,
	`plant_id` text NOT NULL,
	`external_id` text NOT NULL,
	`asset_type` text NOT NULL,
	`name` text NOT NULL,
	`status` text DEFAULT 'UNKNOWN' NOT NULL,
	`linked_device_id` text,
	`rated_power_kw` real,
	`capacity_kwh` real,
	`meter_role` text,
	`created_at_ms` integer NOT NULL,
	`template_id` text,
	`system_template` text,
	FOREIGN KEY (`plant_id`) REFERENCES `plants`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`linked_device_id`) REFERENCES `devices`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`template_id`) REFERENCES `device_templates`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "sub_devices_asset_type" CHECK("asset_type" IN ('BESS', 'FVE', 'METER', 'HEAT_PUMP', 'EV_CHARGER', 'THERMOSTAT', 'INVERTER', 'GENERIC')),
	CONSTRAINT "sub_devices_status" CHECK("status" IN ('ONLINE', 'OFFLINE', 'DEGRADED', 'UNKNOWN')),
	CONSTRAINT "sub_devices_meter_role" CHECK("meter_role" IS NULL OR "meter_role" IN ('GRID', 'FVE', 'BESS', 'CONSUMPTION'))
);
--> statement-breakpoint
CREATE UNIQUE INDEX `sub_devices_external_id` ON `sub_devices` (`plant_id`,`external_id`);--> statement-breakpoint
CREATE UNIQUE INDEX `sub_devices_linked_device` ON `sub_devices` (`linked_device_id`);--> statement-breakpoint
CREATE INDEX `sub_devices_template` ON `sub_devices` (`template_id`) WHERE "template_id" IS NOT NULL;--> statement-breakpoint
CREATE TABLE `support_sessions` (
	`id` text PRIMARY KEY NOT NULL,
	`organization_id` text NOT NULL,
	`token_hash` text NOT NULL,
	`reason` text NOT NULL,
	`created_at_ms` integer NOT NULL,
	`expires_at_ms` integer NOT NULL,
	FOREIGN KEY (`organization_id`) REFERENCES `organizations`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `support_sessions_token` ON `support_sessions` (`token_hash`);--> statement-breakpoint
CREATE INDEX `support_sessions_organization` ON `support_sessions` (`organization_id`,`created_at_ms`);--> statement-breakpoint
CREATE INDEX `support_sessions_expiry` ON `support_sessions` (`expires_at_ms`);--> statement-breakpoint
CREATE TABLE `users` (
	`id` text PRIMARY KEY NOT NULL,
	`email` text NOT NULL,
	`name` text NOT NULL,
	`password_hash` text,
	`super_admin` integer DEFAULT false NOT NULL,
	`token_version` integer DEFAULT 1 NOT NULL,
	`last_login_at_ms` integer,
	`created_at_ms` integer NOT NULL,
	`proved_at_ms` integer,
	`deleted_at_ms` integer,
	CONSTRAINT "users_email_lower" CHECK("email" = lower("email"))
);
--> statement-breakpoint
CREATE UNIQUE INDEX `users_email` ON `users` (`email`);--> statement-breakpoint
CREATE INDEX `users_unproved` ON `users` (`created_at_ms`) WHERE "proved_at_ms" IS NULL;--> statement-breakpoint
CREATE TABLE `webhooks` (
	`id` text PRIMARY KEY NOT NULL,
	`organization_id` text NOT NULL,
	`key_id` text NOT NULL,
	`url` text NOT NULL,
	`types` text NOT NULL,
	`site_ids` text,
	`description` text NOT NULL,
	`secret_sealed` text NOT NULL,
	`previous_sealed` text,
	`previous_until_ms` integer,
	`status` text NOT NULL,
	`status_reason` text,
	`status_at_ms` integer NOT NULL,
	`alert_id` text,
	`mail_due` integer,
	`created_at_ms` integer NOT NULL,
	`updated_at_ms` integer NOT NULL,
	`url_key` text DEFAULT '' NOT NULL,
	FOREIGN KEY (`organization_id`) REFERENCES `organizations`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "webhooks_status" CHECK("status" IN ('PENDING', 'ENABLED', 'DISABLED'))
);
--> statement-breakpoint
CREATE INDEX `webhooks_organization` ON `webhooks` (`organization_id`,`created_at_ms`);--> statement-breakpoint
CREATE INDEX `webhooks_key` ON `webhooks` (`key_id`);--> statement-breakpoint
CREATE INDEX `webhooks_url` ON `webhooks` (`organization_id`,`url_key`);--> statement-breakpoint
CREATE INDEX `webhooks_mail_due` ON `webhooks` (`status_at_ms`) WHERE "mail_due" IS NOT NULL;--> statement-breakpoint
-- [C-2.1] No two plants of an organization share an EAN, in either column: a unique index covers one column only.
-- One plant may have the same EAN in both columns.
CREATE TRIGGER `plants_ean_insert` BEFORE INSERT ON `plants`
WHEN (NEW.ean_cons IS NOT NULL OR NEW.ean_prod IS NOT NULL) AND EXISTS (
	SELECT 1 FROM `plants` AS other
	WHERE other.organization_id = NEW.organization_id AND other.id <> NEW.id
	AND (other.ean_cons IN (NEW.ean_cons, NEW.ean_prod) OR other.ean_prod IN (NEW.ean_cons, NEW.ean_prod))
)
BEGIN SELECT RAISE(ABORT, 'UNIQUE constraint failed: plants.ean within the organization'); END;
--> statement-breakpoint
CREATE TRIGGER `plants_ean_update` BEFORE UPDATE OF `ean_cons`, `ean_prod`, `organization_id` ON `plants`
WHEN (NEW.ean_cons IS NOT NULL OR NEW.ean_prod IS NOT NULL) AND EXISTS (
	SELECT 1 FROM `plants` AS other
	WHERE other.organization_id = NEW.organization_id AND other.id <> NEW.id
	AND (other.ean_cons IN (NEW.ean_cons, NEW.ean_prod) OR other.ean_prod IN (NEW.ean_cons, NEW.ean_prod))
)
BEGIN SELECT RAISE(ABORT, 'UNIQUE constraint failed: plants.ean within the organization'); END;
--> statement-breakpoint
-- The number of an organization's audit events. A count by SELECT would read every row.
CREATE TRIGGER `audit_events_insert` AFTER INSERT ON `audit_events` WHEN NEW.organization_id IS NOT NULL
BEGIN UPDATE `organizations` SET audit_count = audit_count + 1 WHERE id = NEW.organization_id; END;
--> statement-breakpoint
CREATE TRIGGER `audit_events_delete` AFTER DELETE ON `audit_events` WHEN OLD.organization_id IS NOT NULL
BEGIN UPDATE `organizations` SET audit_count = audit_count - 1 WHERE id = OLD.organization_id; END;
--> statement-breakpoint
-- The number of an organization's alerts, in the same way.
CREATE TRIGGER `alerts_insert` AFTER INSERT ON `alerts`
BEGIN UPDATE `organizations` SET alert_count = alert_count + 1 WHERE id = NEW.organization_id; END;
--> statement-breakpoint
CREATE TRIGGER `alerts_delete` AFTER DELETE ON `alerts`
BEGIN UPDATE `organizations` SET alert_count = alert_count - 1 WHERE id = OLD.organization_id; END;
--> statement-breakpoint
-- A mail is due when an alert begins or ends whose rule has recipients, whoever writes the alert.
CREATE TRIGGER `alerts_begun_mail` AFTER INSERT ON `alerts`
WHEN EXISTS (SELECT 1 FROM `alert_rules` WHERE id = NEW.rule_id AND mail_to <> '[]')
BEGIN UPDATE `alerts` SET mail_due = 1 WHERE id = NEW.id; END;
--> statement-breakpoint
CREATE TRIGGER `alerts_ended_mail` AFTER UPDATE OF `status` ON `alerts`
WHEN NEW.status = 'RESOLVED' AND OLD.status <> 'RESOLVED'
AND EXISTS (SELECT 1 FROM `alert_rules` WHERE id = NEW.rule_id AND mail_to <> '[]')
BEGIN UPDATE `alerts` SET mail_due = 2 WHERE id = NEW.id; END;
