/**
 * A text as a literal of a language, for code to copy: the only way in which a value gets into such code [C-15.2]. What a
 * person would not see, or would see in another order, is escaped where the language can. Pure.
 */

/** Control characters, lone surrogates, and characters without a shape: line separators, bidirectional overrides. */
const UNSEEN = String.raw`\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}`;
const TO_ESCAPE = new RegExp(String.raw`['\\${UNSEEN}]`, 'gu');

/** For a POSIX shell. Throws for NUL, which no argument of a program can have. */
export function shellText(text: string): string {
  if (text.includes('\0')) throw new TypeError('a shell cannot pass on a text with NUL');
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

export function javaScriptText(text: string): string {
  return literal(text, (code) => `\\u{${code.toString(16)}}`);
}

export function pythonText(text: string): string {
  return literal(text, (code) => `\\U${code.toString(16).padStart(8, '0')}`);
}

function literal(text: string, escaped: (code: number) => string): string {
  const escapeOne = (char: string) =>
    char === "'" || char === '\\' ? `\\${char}` : escaped(char.codePointAt(0) ?? 0);
  return `'${text.replace(TO_ESCAPE, escapeOne)}'`;
}
