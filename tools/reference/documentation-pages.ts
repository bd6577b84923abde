/**
 * The pages below /docs of every deployment [C-10]: those of `docs/` that users of the interfaces read, and two that are
 * built from the routes and their recorded calls. A link to another page of the repository becomes plain text.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Marked } from 'marked';
import { DOCUMENT_PATHS, FILES, fileOfPage, PAGES, type PageName } from './documents.ts';
import { callsPage, errorsPage } from './rest-reference.ts';

const DOCS = join(import.meta.dirname, '..', '..', 'docs');
const BUILT: Partial<Record<PageName, () => Promise<string>>> = {
  'rest-calls': callsPage,
  errors: errorsPage,
};

/** By file, with the index and the style. */
export async function documentationPages(): Promise<Record<string, string>> {
  const pages = await Promise.all(
    PAGES.map(async (name) => {
      const text = (await BUILT[name]?.()) ?? readFileSync(join(DOCS, `${name}.md`), 'utf8');
      return { name, text, title: /^# (.*)$/m.exec(text)?.[1] ?? name };
    }),
  );
  const list = pages.map(({ name, title }) => `- [${title}](${name}.md)`).join('\n');
  return {
    [FILES.pages]: htmlOf('Documentation', `# Documentation\n\n${list}\n\n${REFERENCE}`),
    [FILES.pagesStyle]: STYLE,
    [FILES.vectors]: readFileSync(join(DOCS, 'signature-vectors.json'), 'utf8'),
    ...Object.fromEntries(pages.map(({ name, title, text }) => [fileOfPage(name), htmlOf(title, text)])),
  };
}

const REFERENCE = `All fields and parameters of REST are in the [reference](/api/v1/docs), which shows
[openapi.json](/api/v1/openapi.json); [asyncapi.json](/api/v1/asyncapi.json) describes AMQP and MQTT.`;

/** The name of a heading in links, as the pages of a repository have it. */
function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}

const markdown = new Marked({
  renderer: {
    heading({ tokens, depth, text }) {
      return `<h${depth} id="${anchorOf(text)}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
    },
    codespan({ text }) {
      const code = `<code>${escaped(text)}</code>`;
      return DOCUMENT_PATHS.includes(text) ? `<a href="${text}">${code}</a>` : code;
    },
    link({ href, tokens }) {
      const text = this.parser.parseInline(tokens);
      const [path = '', anchor] = href.split('#');
      const name = path.replace(/\.md$/, '');
      const isRelative = path !== '' && !/^(\/|https:)/.test(path);
      if (isRelative && !DOCUMENT_PATHS.includes(`/docs/${name}`)) return text;
      const target = isRelative ? `/docs/${name}${anchor === undefined ? '' : `#${anchor}`}` : href;
      return `<a href="${escaped(target)}">${text}</a>`;
    },
  },
});

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

function htmlOf(title: string, text: string): string {
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <title>${title} · Sitewire</title>
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <link rel="icon" href="data:," />
    <link rel="stylesheet" href="/${FILES.pagesStyle}" />
  </head>
  <body>
    <nav><a href="/docs">Documentation</a> <a href="/api/v1/docs">Reference</a></nav>
    <main>
${markdown.parse(text, { async: false })}
    </main>
  </body>
</html>
`;
}

const STYLE = `:root { color-scheme: light dark; }
body { max-width: 72rem; margin: 0 auto; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif; }
nav a { margin-right: 1rem; }
pre { overflow: auto; padding: 0.75rem; border: 1px solid #8886; border-radius: 0.25rem; }
code { font-size: 0.9em; }
table { display: block; overflow-x: auto; border-collapse: collapse; }
th, td { padding: 0.25rem 0.5rem; border: 1px solid #8886; text-align: left; vertical-align: top; }
`;
