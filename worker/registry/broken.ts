/** Recognizes the constraint that a failed write violated: a unique index or a foreign key. */
import { causesOf } from '../../durable-objects/object/reason.ts';

/** The columns of the violated unique index, comma-separated (`api_keys.key_hash`); undefined if none. */
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

/** Whether a statement with `returning` changed no row. */
export function isEmpty(rows: unknown): boolean {
  return (rows as unknown[]).length === 0;
}
