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
	FOREIGN KEY (`organization_id`) REFERENCES `organizations`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "alerts_type" CHECK("type" IN ('THRESHOLD', 'ABSENT')),
	CONSTRAINT "alerts_severity" CHECK("severity" IN ('INFO', 'WARNING', 'CRITICAL')),
	CONSTRAINT "alerts_status" CHECK("status" IN ('ACTIVE', 'ACKNOWLEDGED', 'RESOLVED'))
);
--> statement-breakpoint
CREATE INDEX `alerts_organization` ON `alerts` (`organization_id`,`first_seen_at_ms`);--> statement-breakpoint
CREATE INDEX `alerts_resolved` ON `alerts` (`resolved_at_ms`) WHERE "resolved_at_ms" IS NOT NULL;