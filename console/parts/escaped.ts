/** Texts that others have sent, as a person may look at them [C-15.2]. Pure. */

/** What a person would not see, or would see in another order; line feeds and tabs stay. */
const UNSEEN = /[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]/gu;

/** The text with its unseen characters as `\uXXXX`. */
export function escaped(text: string): string {
  return text.replace(UNSEEN, (char) =>
    char === '\n' || char === '\t' ? char : `\\u${(char.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  );
}
