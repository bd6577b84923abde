/** Organizations as the Worker looks them up. */
import { eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { organizations } from '../../migrations/schema.ts';

export async function organizationOfSlug(database: D1Database, slug: string): Promise<string | undefined> {
  const [row] = await drizzle(database)
    .select({ id: organizations.id })
    .from(organizations)
    .where(eq(organizations.slug, slug));
  return row?.id;
}
