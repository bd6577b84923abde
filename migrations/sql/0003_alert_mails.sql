ALTER TABLE `alert_rules` ADD `mail_to` text DEFAULT '[]' NOT NULL;--> statement-breakpoint
ALTER TABLE `alerts` ADD `mail_due` integer;--> statement-breakpoint
CREATE INDEX `alerts_mail_due` ON `alerts` (`first_seen_at_ms`) WHERE "mail_due" IS NOT NULL;--> statement-breakpoint
-- A mail is due when an alert begins or ends whose rule has recipients, whoever writes the alert.
CREATE TRIGGER `alerts_begun_mail` AFTER INSERT ON `alerts`
WHEN EXISTS (SELECT 1 FROM `alert_rules` WHERE id = NEW.rule_id AND mail_to <> '[]')
BEGIN UPDATE `alerts` SET mail_due = 1 WHERE id = NEW.id; END;
--> statement-breakpoint
CREATE TRIGGER `alerts_ended_mail` AFTER UPDATE OF `status` ON `alerts`
WHEN NEW.status = 'RESOLVED' AND OLD.status <> 'RESOLVED'
AND EXISTS (SELECT 1 FROM `alert_rules` WHERE id = NEW.rule_id AND mail_to <> '[]')
BEGIN UPDATE `alerts` SET mail_due = 2 WHERE id = NEW.id; END;
