/** Topic patterns, as a binding has them: words between dots, `*` is one word, `#` none or many. Pure. */

export function matchesTopic(pattern: string, routingKey: string): boolean {
  return matchesWords(pattern.split('.'), routingKey.split('.'));
}

/** Row by row over the pattern: how much of the key is matched so far. Never more than words times words. */
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

/** Whether a pattern is over an organization's own events [C-6.6]. */
export function isOwnPattern(slug: string, pattern: string): boolean {
  return pattern.startsWith(`${slug}.event.`);
}
