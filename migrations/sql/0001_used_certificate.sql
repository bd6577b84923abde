ALTER TABLE `devices` ADD `used_fingerprint` text;--> statement-breakpoint
ALTER TABLE `devices` ADD `used_until_ms` integer;