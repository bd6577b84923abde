CREATE TABLE `login_failures` (
	`email` text PRIMARY KEY NOT NULL,
	`failures` integer NOT NULL,
	`first_at_ms` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `login_failures_first` ON `login_failures` (`first_at_ms`);--> statement-breakpoint
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
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `sessions_user` ON `sessions` (`user_id`,`created_at_ms`);--> statement-breakpoint
CREATE INDEX `sessions_expiry` ON `sessions` (`expires_at_ms`);--> statement-breakpoint
DROP INDEX `api_keys_organization`;--> statement-breakpoint
ALTER TABLE `api_keys` ADD `state` text DEFAULT 'active' NOT NULL;--> statement-breakpoint
ALTER TABLE `api_keys` ADD `probe_hash` text;--> statement-breakpoint
ALTER TABLE `api_keys` ADD `bundle_acknowledged_at_ms` integer;--> statement-breakpoint
CREATE INDEX `api_keys_organization` ON `api_keys` (`organization_id`,`created_at_ms`);--> statement-breakpoint
ALTER TABLE `audit_events` ADD `actor_type` text DEFAULT 'API_KEY' NOT NULL;--> statement-breakpoint
ALTER TABLE `audit_events` ADD `actor_name` text;--> statement-breakpoint
ALTER TABLE `audit_events` ADD `target_type` text DEFAULT 'API_KEY' NOT NULL;--> statement-breakpoint
ALTER TABLE `organizations` ADD `registry_version` integer DEFAULT 1 NOT NULL;