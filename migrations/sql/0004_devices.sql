ALTER TABLE `devices` ADD `updated_at_ms` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `devices` ADD `status_at_ms` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `devices` ADD `suspended_at_ms` integer;--> statement-breakpoint
ALTER TABLE `devices` ADD `suspend_reason` text;--> statement-breakpoint
ALTER TABLE `devices` ADD `token_expires_at_ms` integer;--> statement-breakpoint
ALTER TABLE `devices` ADD `hmac_grace_until_ms` integer;--> statement-breakpoint
ALTER TABLE `devices` ADD `provisioning_at_ms` integer;--> statement-breakpoint
ALTER TABLE `devices` ADD `moving_to` text;--> statement-breakpoint
ALTER TABLE `devices` ADD `certificate_fingerprint` text;--> statement-breakpoint
ALTER TABLE `devices` ADD `certificate_expires_at_ms` integer;--> statement-breakpoint
ALTER TABLE `devices` ADD `previous_fingerprint` text;--> statement-breakpoint
ALTER TABLE `devices` ADD `previous_until_ms` integer;--> statement-breakpoint
CREATE INDEX `devices_organization` ON `devices` (`organization_id`,`name`,`id`);--> statement-breakpoint
CREATE INDEX `devices_moving` ON `devices` (`moving_to`) WHERE "moving_to" IS NOT NULL;--> statement-breakpoint
ALTER TABLE `organizations` ADD `device_count` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
UPDATE `organizations` SET `device_count` = (SELECT count(*) FROM `devices` WHERE `devices`.`organization_id` = `organizations`.`id`);
