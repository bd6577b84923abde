/** What a write broke: the columns of a unique index, as SQLite names them, or a reference to it. */
import { causesOf } from '../../durable-objects/object/reason.ts';

/** `api_keys.key_hash`, several columns with commas between; undefined when it broke none. */
export function brokenUnique(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  for (const { message } of causesOf(error)) {
    const match = /UNIQUE constraint failed: ([^:]+)/.exec(message);
    if (match?.[1]) return match[1].trim();
  }
  return undefined;
}

export function brokeForeignKey(error: unknown): boolean {
  const isForeign = ({ message }: Error) => message.includes('FOREIGN KEY constraint failed');
  return error instanceof Error && causesOf(error).some(isForeign);
}

/** Of a statement that returns what it changed: nothing was there to change. */
export function isEmpty(rows: unknown): boolean {
  return (rows as unknown[]).length === 0;
}
