-- [C-2.1] No two plants of an organization share an EAN, also not one's consumption with another's production;
-- unique indexes see one column at a time. One plant may have both the same.
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
