CREATE TABLE `mail_shares` (
	`id` text PRIMARY KEY NOT NULL,
	`address` text NOT NULL,
	`at_ms` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `mail_shares_address` ON `mail_shares` (`address`,`at_ms`);--> statement-breakpoint
CREATE INDEX `mail_shares_at` ON `mail_shares` (`at_ms`);--> statement-breakpoint
ALTER TABLE `api_keys` ADD `sees` text DEFAULT 'PARTNER' NOT NULL;--> statement-breakpoint
ALTER TABLE `mails` ADD `lane` text DEFAULT '' NOT NULL;--> statement-breakpoint
CREATE INDEX `mails_lane` ON `mails` (`lane`);--> statement-breakpoint
ALTER TABLE `webhooks` ADD `url_key` text DEFAULT '' NOT NULL;--> statement-breakpoint
UPDATE `webhooks` SET `url_key` = `url`;--> statement-breakpoint
CREATE INDEX `webhooks_url` ON `webhooks` (`organization_id`,`url_key`);--> statement-breakpoint
CREATE INDEX `audit_events_actor_event` ON `audit_events` (`actor`,`event`,`created_at_ms`);