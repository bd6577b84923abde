/** docs/amqp.md and docs/mqtt.md agree with schemas, examples and limits, and omit none of them. */
import { createHmac } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { SITE_ACTIONS } from '../../protocol/action.ts';
import { REJECTION_CODES } from '../../protocol/enums.ts';
import { ERROR_STATUS } from '../../protocol/errors.ts';
import { ALARM_TYPES } from '../../protocol/event.ts';
import { VCP_WRITE_SCOPES } from '../../protocol/scopes.ts';
import { COMMAND_EXAMPLES, PUBLISHES } from '../../tools/reference/asyncapi/commands.ts';
import { EVENTS, SAYS } from '../../tools/reference/asyncapi/examples.ts';
import { SCHEMAS } from '../../tools/reference/asyncapi/schema.ts';
import { FILLED, fill } from '../../tools/reference/docs.ts';
import { documentationPages } from '../../tools/reference/documentation-pages.ts';
import { DOCUMENT_PATHS } from '../../tools/reference/documents.ts';
import { CALLS, END_CALLS } from '../../tools/reference/rest-calls/calls.ts';
import { documentedRoutes } from '../../tools/reference/rest-calls/route-facts.ts';
import { callsPage, errorsPage } from '../../tools/reference/rest-reference.ts';
import { vectors } from '../../tools/reference/vectors.ts';

const FOLDERS = [
  ...['bridge', 'console', 'deploy', 'durable-objects', 'examples', 'protocol'],
  ...['registry', 'test', 'tools', 'worker'],
];
const ALL_CALLS = [...CALLS, ...END_CALLS];
const ROOT = join(import.meta.dirname, '..', '..');
const DOCS = join(ROOT, 'docs');
const texts = Object.fromEntries(FILLED.map((name) => [name, readFileSync(join(DOCS, name), 'utf8')]));
const all = Object.values(texts).join('\n');

describe.each(FILLED)('docs/%s', (name) => {
  it('equals the output of `npm run docs`', () => {
    expect(fill(texts[name] ?? '')).toBe(texts[name]);
  });
});

describe('the pages below /docs', async () => {
  const [calls, errors] = await Promise.all([callsPage(), errorsPage()]);
  const pages = await documentationPages();

  it('have a call of each route that is neither a document nor for the platform itself [C-10]', async () => {
    const hidden = new Set(ALL_CALLS.filter(({ isHidden }) => isHidden).map(({ route }) => route));
    const routes = [...(await documentedRoutes()).keys()].filter(
      (route) => !hidden.has(route) && !DOCUMENT_PATHS.includes(route.replace('GET ', '')),
    );
    expect(routes.length).toBeGreaterThan(100);
    expect(routes.filter((route) => !calls.includes(`\n\`${route}\`\n`))).toEqual([]);
  });

  it('show the answer of each call, as `npm run sitewire -- examples` recorded it [C-10]', () => {
    expect([...calls.matchAll(/`(.*)`[^`]*```sh[^`]*```\n\nNo answer/g)].map(([, route]) => route)).toEqual(
      [],
    );
    expect(calls).not.toContain('No answer is recorded.');
  });

  it('say of each error code when it is answered, or that no route answers it [C-10]', () => {
    const codes = Object.keys(ERROR_STATUS);
    expect(
      codes.filter((code) => !errors.includes(`\n## ${code}\n`) && !errors.includes(`\`${code}\``)),
    ).toEqual([]);
  });

  it('link only to files and headings that are served', () => {
    const broken = Object.entries(pages).flatMap(([file, html]) =>
      [...html.matchAll(/<a href="([^"]+)"/g)]
        .map(([, href = '']) => href)
        .filter((href) => !href.startsWith('http') && !isServed(href, html, pages))
        .map((href) => `${file}: ${href}`),
    );
    expect(broken).toEqual([]);
  });

  it('show code as code: nothing of a text becomes an element', () => {
    expect(pages['docs/mqtt.html']).toContain('<table>');
    expect(Object.values(pages).join('')).not.toMatch(/<script|<img|javascript:/i);
  });
});

function isServed(href: string, html: string, pages: Record<string, string>): boolean {
  const [path = '', anchor] = href.split('#');
  if (path !== '' && !DOCUMENT_PATHS.includes(path)) return false;
  const target = path === '' ? html : pages[`${path.slice(1)}.html`];
  return anchor === undefined || (target?.includes(` id="${anchor}"`) ?? false);
}

describe('the signpost of each top-level folder', () => {
  const signposts = FOLDERS.map((folder): [string, string] => [
    folder,
    readFileSync(join(ROOT, folder, 'README.md'), 'utf8'),
  ]);

  it('is there', () => {
    const ignored = ['dist', 'docs', 'node_modules', 'bench-results'];
    const all = readdirSync(ROOT, { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.') && !ignored.includes(entry.name))
      .map(({ name }) => name);
    expect(all.sort()).toEqual([...FOLDERS].sort());
  });

  it.each(signposts)('has at most twenty lines, and names what is there: %s', (folder, text) => {
    expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(20);
    const names = [...text.matchAll(/`([\w./-]+(?:\/|\.(?:tsx?|toml|yml|cfg|service|md)))`/g)];
    const isMissing = (name: string) =>
      [folder, '.', 'bridge/amqp', 'bridge/mqtt'].every((place) => !existsSync(join(ROOT, place, name)));
    expect(names.map(([, name = '']) => name).filter(isMissing)).toEqual([]);
  });
});

describe('where CONTRIBUTING says that a rule is', () => {
  it('is a file or a folder', () => {
    const text = readFileSync(join(ROOT, 'CONTRIBUTING.md'), 'utf8');
    const rows = [...text.matchAll(/^\|[^|\n]*\|[^|\n]*\| (`.*) \|$/gm)].map(([, cell = '']) => cell);
    const missing = rows.flatMap((cell) => {
      let folder = '';
      return [...cell.matchAll(/`([\w./-]+\/|[\w./-]+\.tsx?)`/g)].flatMap(([, name = '']) => {
        const places = ['', 'durable-objects', 'tools/reference/openapi', folder];
        const found = places.find((place) => existsSync(join(ROOT, place, name)));
        if (found === undefined) return [name];
        folder = dirname(join(found, name));
        return [];
      });
    });
    expect(rows.length).toBeGreaterThan(60);
    expect(missing).toEqual([]);
  });
});

describe('the links of the documentation', () => {
  const pages = [
    ...['README.md', 'CONTRIBUTING.md', ...readdirSync(DOCS).map((name) => `docs/${name}`)],
    ...FOLDERS.map((folder) => `${folder}/README.md`),
  ];

  it.each(pages.filter((page) => page.endsWith('.md')))(
    'lead from %s to existing files and headings',
    (page) => {
      const text = readFileSync(join(ROOT, page), 'utf8');
      const links = [...text.matchAll(/\]\(\s*([^)\s]*)\)/g)].map(([, link = '']) => link);
      const isBroken = (link: string) => {
        const [path = '', anchor] = link.split('#');
        const file = path === '' ? join(ROOT, page) : join(ROOT, dirname(page), path);
        if (!existsSync(file)) return true;
        return anchor !== undefined && !headingsOf(readFileSync(file, 'utf8')).includes(anchor);
      };
      expect(links.filter((link) => !link.startsWith('http') && isBroken(link))).toEqual([]);
    },
  );
});

describe('docs/amqp.md and docs/mqtt.md together', () => {
  it('have a table of fields for each schema', () => {
    const shown = [...all.matchAll(/<!-- fields: (\w+) -->/g)].map(([, schema]) => schema);
    expect(shown.sort()).toEqual(Object.keys(SCHEMAS).sort());
  });

  it('show each example', () => {
    const shown = [...all.matchAll(/<!-- example: (\w+) -->/g)].map(([, example]) => example);
    const examples = [PUBLISHES, EVENTS, SAYS, COMMAND_EXAMPLES].flatMap((some) => Object.keys(some));
    expect(shown.sort()).toEqual(examples.sort());
  });

  it('have every rejection code, type of alarm, action and scope to publish', () => {
    const words = [...REJECTION_CODES, ...ALARM_TYPES, ...SITE_ACTIONS, ...VCP_WRITE_SCOPES];
    const missing = words.filter((word) => !all.includes(`\`${word}\``));
    expect(missing).toEqual([]);
  });
});

describe('docs/mqtt.md', () => {
  it('spells out the text that the example of telemetry signs [C-3.7]', () => {
    const { deviceId, hmacSecret } = vectors();
    const [line] = new RegExp(`^${deviceId}\\|.*$`, 'm').exec(texts['mqtt.md'] ?? '') ?? [''];
    expect(createHmac('sha256', hmacSecret).update(line).digest('hex')).toBe(SAYS.DeviceTelemetry.sig);
  });
});

describe('the generator of field tables', () => {
  it("keeps a field's hand-written description, adds new fields and removes old ones", () => {
    const filled = fill(
      '<!-- fields: Emergency -->\n|a|b|c|d|\n|-|-|-|-|\n| `reason` | x | yes | why |\n| `old` | | | |\n',
    );
    expect(filled).toContain('| `type` | `STOP`, `HOLD` | yes |  |');
    expect(filled).toContain('| `reason` | text, at most 500 characters | no | why |');
    expect(filled).not.toContain('old');
  });

  it('lists the values of a field below the table if its row would be too long', () => {
    const filled = fill('<!-- fields: DeviceCommand -->\n');
    expect(filled).toContain('| `commands[].command` | one of 10 words | yes |  |');
    expect(filled).toMatch(/\n\n- `commands\[\]\.command`: one of `FVE_PRODUCE_MAX`, .*\n$/);
    expect(fill(filled)).toBe(filled);
  });

  it('describes limits in words, with the setting that changes them', () => {
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
  ])('rejects the unknown %j', (text) => {
    expect(() => fill(text)).toThrow(/^unknown (example|schema|limit)/);
  });
});

/** Converts headings to their link names. */
function headingsOf(text: string): string[] {
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
}
