/** Truncates a text of unknown origin to `most` characters and appends its original length. */
export function cut(text: string, most: number): string {
  if (text.length <= most) return text;
  // Do not cut a surrogate pair in half: a lone surrogate is not valid text.
  const isSplit = /[\ud800-\udbff]/.test(text.charAt(most - 1));
  return `${text.slice(0, isSplit ? most - 1 : most)}… (${text.length} characters)`;
}
