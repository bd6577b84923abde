/**
 * The API documents and their page as static files [C-15.7]: which file answers which path, and with which headers.
 * Cloudflare reads both from the files `_headers` and `_redirects`, Miniflare gets them as settings. `run_worker_first` in
 * wrangler.toml names the same paths.
 */
const PAGE_PATH = '/api/v1/docs';

/** The pages below /docs, by the name in their path: from `docs/`, and the two that are built from the routes. */
export const PAGES = [
  'rest',
  'rest-calls',
  'errors',
  'amqp',
  'mqtt',
  'events',
  'flows',
  'glossary',
  'decisions',
] as const;
export type PageName = (typeof PAGES)[number];

/** The files, below the folder of the static files. */
export const FILES = {
  openApi: 'api/v1/openapi.json',
  asyncApi: 'api/v1/asyncapi.json',
  page: 'api/v1/docs.html',
  start: 'api/v1/docs/start.js',
  viewer: 'api/v1/docs/viewer.js',
  viewerStyle: 'api/v1/docs/viewer.css',
  pages: 'docs.html',
  pagesStyle: 'docs/pages.css',
  vectors: 'docs/signature-vectors.json',
};

/** The paths of pages, with their files. */
const HTML: Record<string, string> = {
  [PAGE_PATH]: FILES.page,
  '/docs': FILES.pages,
  ...Object.fromEntries(PAGES.map((name) => [`/docs/${name}`, fileOfPage(name)])),
};

export function fileOfPage(name: PageName): string {
  return `docs/${name}.html`;
}

/** The paths that the files answer; every other path is the Worker's. */
export const DOCUMENT_PATHS = [
  ...Object.values(FILES)
    .filter((file) => !file.endsWith('.html'))
    .map((file) => `/${file}`),
  ...Object.keys(HTML),
];

const NOTHING = "default-src 'none'; frame-ancestors 'none'";
const STATIC = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'";
/** The viewer sets styles itself. */
const OF_VIEWER = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  'img-src data:',
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

function policyOf(path: string): string {
  if (path === PAGE_PATH) return OF_VIEWER;
  return path in HTML ? STATIC : NOTHING;
}

/** As the Worker answers. A cache may store a document, and must check before each use that it is current. */
function headersOf(path: string): Record<string, string> {
  return {
    'cache-control': 'no-cache',
    'content-security-policy': policyOf(path),
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'referrer-policy': 'no-referrer',
    'strict-transport-security': 'max-age=15552000; includeSubDomains',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'SAMEORIGIN',
  };
}

/** The two files for Cloudflare. */
export function documentRules(): Record<string, string> {
  const rules = DOCUMENT_PATHS.map((path) => {
    const lines = Object.entries(headersOf(path)).map(([name, value]) => `  ${name}: ${value}`);
    return [path, ...lines].join('\n');
  });
  const rewrites = Object.entries(HTML).map(([path, file]) => `${path} /${file} 200\n`);
  return { _headers: `${rules.join('\n')}\n`, _redirects: rewrites.join('') };
}

/** The same for Miniflare. */
export const DOCUMENT_SETTINGS = {
  headers: {
    version: 2 as const,
    rules: Object.fromEntries(DOCUMENT_PATHS.map((path) => [path, { set: headersOf(path) }])),
  },
  redirects: {
    version: 1 as const,
    staticRules: Object.fromEntries(
      Object.entries(HTML).map(([path, file], index) => [
        path,
        { status: 200, to: `/${file}`, lineNumber: index + 1 },
      ]),
    ),
    rules: {},
  },
};
