/** docs/amqp.md and docs/mqtt.md say what schemas, examples and limits say, and leave nothing of them out. */
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { REJECTION_CODES } from '../../protocol/enums.ts';
import { ALARM_TYPES } from '../../protocol/event.ts';
import { FILLED, fill } from '../../tools/docs.ts';
import { vectors } from '../../tools/vectors.ts';
import { SAYS } from '../../worker/asyncapi/examples.ts';

const DOCS = join(import.meta.dirname, '..', '..', 'docs');
const { asyncApiDocument } = await import(new URL('../../worker/asyncapi/document.ts', import.meta.url).href);
const { schemas } = asyncApiDocument().components as { schemas: Record<string, object> };
const texts = Object.fromEntries(FILLED.map((name) => [name, readFileSync(join(DOCS, name), 'utf8')]));
const all = Object.values(texts).join('\n');

describe.each(FILLED)('docs/%s', (name) => {
  it('is what `npm run docs` writes', () => {
    expect(fill(texts[name] ?? '')).toBe(texts[name]);
  });

  it('has a meaning for each field that its name does not tell', () => {
    expect(texts[name]).not.toMatch(/<!-- (example|fields|limits)[^>]*$/m);
    const headings = [...(texts[name] ?? '').matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
      anchorOf(title),
    );
    const links = [...(texts[name] ?? '').matchAll(/\]\(\s*#([^)]*)\)/g)].map(([, anchor]) => anchor);
    expect(links.filter((anchor) => !headings.includes(anchor ?? ''))).toEqual([]);
  });
});

describe('both of them', () => {
  it('have a table of fields for each schema', () => {
    const shown = [...all.matchAll(/<!-- fields: (\w+) -->/g)].map(([, schema]) => schema);
    expect(shown.sort()).toEqual(Object.keys(schemas).sort());
  });

  it('have every rejection code and every type of alarm', () => {
    const missing = [...REJECTION_CODES, ...ALARM_TYPES].filter((word) => !all.includes(`\`${word}\``));
    expect(missing).toEqual([]);
  });
});

describe('docs/mqtt.md', () => {
  it('spells out what the example of telemetry signs [C-3.7]', () => {
    const { deviceId, hmacSecret } = vectors();
    const [line] = new RegExp(`^${deviceId}\\|.*$`, 'm').exec(texts['mqtt.md'] ?? '') ?? [''];
    expect(createHmac('sha256', hmacSecret).update(line).digest('hex')).toBe(SAYS.DeviceTelemetry.sig);
  });
});

describe('filling', () => {
  it('keeps what a person wrote of a field, adds fields that are new and drops those that are gone', () => {
    const filled = fill(
      '<!-- fields: Emergency -->\n|a|b|c|d|\n|-|-|-|-|\n| `reason` | x | yes | why |\n| `old` | | | |\n',
    );
    expect(filled).toContain('| `type` | `STOP`, `HOLD` | yes |  |');
    expect(filled).toContain('| `reason` | text, at most 500 characters | no | why |');
    expect(filled).not.toContain('old');
  });

  it('puts limits in words, with the setting that changes them', () => {
    const names = ['confirmMs', 'queueBytes', 'queueMessages', 'publishesPerSecond'];
    const filled = fill(
      `<!-- limits -->\n|a|b|c|\n|-|-|-|\n${names.map((name) => `| | | \`${name}\` |\n`).join('')}`,
    );
    for (const value of [
      '8 s',
      '64 MiB',
      '100 000 messages',
      '50 publishes (setting `publishRatePerSecond`)',
    ])
      expect(filled).toContain(`| ${value} |`);
  });

  it.each([
    '<!-- example: None -->\n```json\n```',
    '<!-- fields: None -->\n',
    '<!-- limits -->\n||\n||\n| | | `none` |\n',
  ])('knows no %j', (text) => {
    expect(() => fill(text)).toThrow(/^no (example|schema|limit)/);
  });
});

/** As a reader of Markdown makes it of a heading. */
function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}
