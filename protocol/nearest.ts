/** Suggestion for a mistyped word: "Did you mean …?" in an error message. */

/** The word that `text` begins, or else the most similar word; undefined: no word is similar enough. */
export function nearest<Word extends string>(text: string, words: readonly Word[]): Word | undefined {
  const begun = text === '' ? undefined : words.find((word) => word.startsWith(text));
  if (begun) return begun;
  const [best] = words
    .filter((word) => Math.abs(word.length - text.length) <= MAX_EDITS)
    .map((word) => ({ word, edits: editsBetween(text, word) }))
    .sort((one, other) => one.edits - other.edits);
  return best && best.edits <= Math.min(MAX_EDITS, text.length / 2) ? best.word : undefined;
}

const MAX_EDITS = 3;

/** Levenshtein distance: how many characters must be inserted, deleted or replaced. */
function editsBetween(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [index, letter] of [...one].entries()) {
    const next = [index + 1];
    for (let at = 0; at < other.length; at++) {
      const replaced = (row[at] ?? 0) + (letter === other[at] ? 0 : 1);
      next.push(Math.min(replaced, (row[at + 1] ?? 0) + 1, (next[at] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? 0;
}
