/** Status that lists need, on its way from a Site to D1. Applying a change twice changes nothing. */
import { eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { devices, plants, subDevices } from '../../migrations/schema.ts';

export interface StatusChange {
  kind: 'device' | 'plant' | 'sub-device';
  id: string;
  columns: Record<string, string | number | null>;
}

export async function writeStatus(database: D1Database, changes: readonly StatusChange[]): Promise<void> {
  const db = drizzle(database);
  const statements = changes.map(({ kind, id, columns }) => {
    if (kind === 'plant') return db.update(plants).set(columns).where(eq(plants.id, id));
    if (kind === 'device') return db.update(devices).set(columns).where(eq(devices.id, id));
    return db.update(subDevices).set(columns).where(eq(subDevices.id, id));
  });
  const [first, ...rest] = statements;
  if (first) await db.batch([first, ...rest]);
}
