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
CREATE INDEX `invitations_expiry` ON `invitations` (`expires_at_ms`);