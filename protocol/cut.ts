/** The beginning of a text that may be anybody's and of any length, and how long it was. */
export function cut(text: string, most: number): string {
  if (text.length <= most) return text;
  // A character outside the basic plane is two units, and half of one is no text.
  const isSplit = /[\ud800-\udbff]/.test(text.charAt(most - 1));
  return `${text.slice(0, isSplit ? most - 1 : most)}… (${text.length} characters)`;
}
