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
ALTER TABLE `devices` ADD `template_id` text REFERENCES device_templates(id);--> statement-breakpoint
ALTER TABLE `devices` ADD `system_template` text;--> statement-breakpoint
CREATE INDEX `devices_template` ON `devices` (`template_id`) WHERE "template_id" IS NOT NULL;--> statement-breakpoint
ALTER TABLE `sub_devices` ADD `template_id` text REFERENCES device_templates(id);--> statement-breakpoint
ALTER TABLE `sub_devices` ADD `system_template` text;--> statement-breakpoint
CREATE INDEX `sub_devices_template` ON `sub_devices` (`template_id`) WHERE "template_id" IS NOT NULL;