/** Devices as the Worker looks them up when one dials. */
import { eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { devices } from '../../migrations/schema.ts';

export type DialingDevice = Pick<typeof devices.$inferSelect, 'id' | 'plantId' | 'status' | 'authMethod'>;

export async function findDevice(database: D1Database, id: string): Promise<DialingDevice | undefined> {
  const [device] = await drizzle(database)
    .select({
      id: devices.id,
      plantId: devices.plantId,
      status: devices.status,
      authMethod: devices.authMethod,
    })
    .from(devices)
    .where(eq(devices.id, id));
  return device;
}
