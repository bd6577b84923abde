/** Topic patterns of bindings: words separated by dots; `*` is one word, `#` is any number of words. Pure. */

export function matchesTopic(pattern: string, routingKey: string): boolean {
  return matchesWords(pattern.split('.'), routingKey.split('.'));
}

/**
 * Goes through the parts of the pattern, and computes after each how many words the parts so far can match. The
 * steps grow only in proportion to the length of the pattern, so a long pattern cannot block the object.
 */
function matchesWords(pattern: readonly string[], words: readonly string[]): boolean {
  let reached = new Set([0]);
  for (const part of pattern) {
    const next = new Set<number>();
    for (const at of reached) {
      if (part === '#') for (let to = at; to <= words.length; to++) next.add(to);
      else if (at < words.length && (part === '*' || part === words[at])) next.add(at + 1);
    }
    reached = next;
  }
  return reached.has(words.length);
}

/** Whether a pattern matches only events of the organization [C-6.6]. */
export function isOwnPattern(slug: string, pattern: string): boolean {
  return pattern.startsWith(`${slug}.event.`);
}
