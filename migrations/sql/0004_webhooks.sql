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
	FOREIGN KEY (`organization_id`) REFERENCES `organizations`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "webhooks_status" CHECK("status" IN ('PENDING', 'ENABLED', 'DISABLED'))
);
--> statement-breakpoint
CREATE INDEX `webhooks_organization` ON `webhooks` (`organization_id`,`created_at_ms`);--> statement-breakpoint
CREATE INDEX `webhooks_key` ON `webhooks` (`key_id`);--> statement-breakpoint
CREATE INDEX `webhooks_mail_due` ON `webhooks` (`status_at_ms`) WHERE "mail_due" IS NOT NULL;--> statement-breakpoint
-- The alerts again, with one more type. SQLite cannot change a CHECK, and it drops the triggers with the old table.
CREATE TABLE `__new_alerts` (
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
INSERT INTO `__new_alerts`("id", "organization_id", "rule_id", "plant_id", "device_id", "type", "severity", "status", "message", "value", "threshold", "first_seen_at_ms", "last_seen_at_ms", "count", "note", "acknowledged_by", "acknowledged_at_ms", "resolved_by", "resolved_at_ms", "mail_due") SELECT "id", "organization_id", "rule_id", "plant_id", "device_id", "type", "severity", "status", "message", "value", "threshold", "first_seen_at_ms", "last_seen_at_ms", "count", "note", "acknowledged_by", "acknowledged_at_ms", "resolved_by", "resolved_at_ms", "mail_due" FROM `alerts`;--> statement-breakpoint
DROP TABLE `alerts`;--> statement-breakpoint
ALTER TABLE `__new_alerts` RENAME TO `alerts`;--> statement-breakpoint
CREATE INDEX `alerts_mail_due` ON `alerts` (`first_seen_at_ms`) WHERE "mail_due" IS NOT NULL;--> statement-breakpoint
CREATE INDEX `alerts_organization` ON `alerts` (`organization_id`,`first_seen_at_ms`);--> statement-breakpoint
CREATE INDEX `alerts_resolved_first` ON `alerts` (`organization_id`,`resolved_at_ms`) WHERE "status" = 'RESOLVED';--> statement-breakpoint
CREATE INDEX `alerts_resolved` ON `alerts` (`resolved_at_ms`) WHERE "resolved_at_ms" IS NOT NULL;--> statement-breakpoint
CREATE TRIGGER `alerts_insert` AFTER INSERT ON `alerts`
BEGIN UPDATE `organizations` SET alert_count = alert_count + 1 WHERE id = NEW.organization_id; END;
--> statement-breakpoint
CREATE TRIGGER `alerts_delete` AFTER DELETE ON `alerts`
BEGIN UPDATE `organizations` SET alert_count = alert_count - 1 WHERE id = OLD.organization_id; END;
--> statement-breakpoint
CREATE TRIGGER `alerts_begun_mail` AFTER INSERT ON `alerts`
WHEN EXISTS (SELECT 1 FROM `alert_rules` WHERE id = NEW.rule_id AND mail_to <> '[]')
BEGIN UPDATE `alerts` SET mail_due = 1 WHERE id = NEW.id; END;
--> statement-breakpoint
CREATE TRIGGER `alerts_ended_mail` AFTER UPDATE OF `status` ON `alerts`
WHEN NEW.status = 'RESOLVED' AND OLD.status <> 'RESOLVED'
AND EXISTS (SELECT 1 FROM `alert_rules` WHERE id = NEW.rule_id AND mail_to <> '[]')
BEGIN UPDATE `alerts` SET mail_due = 2 WHERE id = NEW.id; END;
