/** The text format of Prometheus, version 0.0.4. Pure. */
import type { Family } from './families.ts';

export const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

export interface Sample {
  /** Label values, in the order of the family's labels. */
  values: readonly string[];
  value: number;
}

/** Formats one family, in the order of its samples. */
export function familyText({ name, type, help, labels }: Family, samples: Iterable<Sample>): string {
  const lines = [`# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`];
  for (const { values, value } of samples) lines.push(`${name}${labelText(labels, values)} ${value}\n`);
  return lines.join('');
}

function labelText(labels: readonly string[], values: readonly string[]): string {
  if (labels.length === 0) return '';
  return `{${labels.map((label, index) => `${label}="${escapeValue(values[index] ?? '')}"`).join(',')}}`;
}

function escapeHelp(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}

function escapeValue(text: string): string {
  return escapeHelp(text).replaceAll('"', '\\"');
}
