/**
 * JSON that is text already within JSON that is made: a payload is answered as it was kept, and no objects of it are
 * built, cloned between isolates and written again. Pure.
 */

export class JsonText {
  readonly text: string;

  /** `text` is one JSON value; nobody checks that here. */
  constructor(text: string) {
    this.text = text;
  }
}

/** An object of members that are values or texts; undefined ones are left out. */
export function jsonObject(members: Readonly<Record<string, unknown>>): JsonText {
  const texts: string[] = [];
  for (const [name, value] of Object.entries(members)) {
    if (value === undefined) continue;
    const text = value instanceof JsonText ? value.text : JSON.stringify(value);
    texts.push(`${JSON.stringify(name)}:${text}`);
  }
  return new JsonText(`{${texts.join(',')}}`);
}

export function jsonArray(items: readonly JsonText[]): JsonText {
  return new JsonText(`[${items.map(({ text }) => text).join(',')}]`);
}
