/** Formats of identifiers and instants. A UUID is accepted in upper and lower case and stored in lower case. */
import * as z from 'zod';

// Both cases without a flag: the OpenAPI document has only the pattern.
const UUID = /^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/;

export function isUuid(text: string): boolean {
  return UUID.test(text);
}

export const uuid = z
  .string()
  .regex(UUID, 'must be a UUID')
  .transform((text) => text.toLowerCase())
  .meta({ format: 'uuid' });

/** [C-1.1] */
export const SLUG = /^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/;
/** Slugs that would read as a part of an exchange, a routing key or a path. */
const RESERVED_SLUGS = ['vcp', 'amq', 'event', 'admin', 'api', 'link', 'sitewire'];

/** Whether the slug could be mistaken for something else: a word of our own, a UUID, or an encoded domain name. */
export function isReservedSlug(slug: string): boolean {
  return RESERVED_SLUGS.includes(slug) || isUuid(slug) || slug.startsWith('xn--');
}

/** [C-2.1] */
export const EAN = /^[0-9]{18}$/;
/** [C-2.1] */
export const EXTERNAL_PLANT_ID = /^[A-Za-z0-9._:-]{1,64}$/;
/** [C-2.2] */
export const SUB_DEVICE_EXTERNAL_ID = /^[A-Za-z0-9._-]{1,64}$/;

const INSTANT = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(Z|[+-]\d{2}:\d{2})$/;

const LAST_INSTANT_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

/**
 * Parses an ISO 8601 instant with a time zone (`Z` or an offset, as Python's isoformat prints it) into epoch
 * milliseconds. Undefined for anything else, including days that do not exist and years before 1970 or after
 * 9999.
 */
export function parseInstant(text: string): number | undefined {
  const match = INSTANT.exec(text);
  if (!match) return undefined;
  const [, year, month, day, hour, minute, second, fraction = '', zone = 'Z'] = match;
  // Date.UTC maps the years 0 to 99 to 1900 to 1999. 1969 may still be 1970 in UTC.
  if (Number(year) < 1969) return undefined;
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return undefined;
  const atUtc = Date.UTC(
    Number(year),
    Number(month) - 1,
    Number(day),
    Number(hour),
    Number(minute),
    Number(second),
  );
  const date = new Date(atUtc);
  if (date.getUTCMonth() + 1 !== Number(month) || date.getUTCDate() !== Number(day)) return undefined;
  const offsetMs = zoneOffsetMs(zone);
  if (offsetMs === undefined) return undefined;
  const milliseconds = Number(fraction.padEnd(3, '0').slice(0, 3));
  const epochMs = atUtc + milliseconds - offsetMs;
  return epochMs >= 0 && epochMs <= LAST_INSTANT_MS ? epochMs : undefined;
}

function zoneOffsetMs(zone: string): number | undefined {
  if (zone === 'Z') return 0;
  const hour = Number(zone.slice(1, 3));
  const minute = Number(zone.slice(4, 6));
  if (hour > 14 || minute > 59) return undefined;
  const minutes = hour * 60 + minute;
  return (zone.startsWith('-') ? -minutes : minutes) * 60_000;
}

export function formatInstant(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/** A string that contains an instant. The text is not normalized. */
export const instant = z
  .string()
  .max(40)
  .refine((text) => parseInstant(text) !== undefined, 'must be an ISO 8601 instant with a time zone')
  .meta({ format: 'date-time' });
