/**
 * Embeds existing JSON text in new JSON. A stored payload is answered as it is, instead of being parsed,
 * cloned between isolates and serialized again. Pure.
 */

export class JsonText {
  readonly text: string;

  /** `text` must be one JSON value. It is not checked. */
  constructor(text: string) {
    this.text = text;
  }
}

/** A JSON object whose members are values or JsonText. Members that are undefined are omitted. */
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
