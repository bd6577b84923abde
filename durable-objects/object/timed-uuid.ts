/** UUIDs that say when they were made, so that rows in the order of time are found by their id. */

/** A new UUID that begins with a time, epoch ms (RFC 9562, version 7). */
export function uuidAt(epochMs: number): string {
  const time = epochMs.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${crypto.randomUUID().slice(15)}`;
}

/** The time with which the UUID begins, epoch ms. */
export function timeOfUuid(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}
