/**
 * The API documents and their page as static files [C-15.7]: which file answers which path, and with which headers.
 * Cloudflare reads both from the files `_headers` and `_redirects`, Miniflare gets them as settings. `run_worker_first` in
 * wrangler.toml names the same paths.
 */
const PAGE_PATH = '/api/v1/docs';

/** The files, below the folder of the static files. */
export const FILES = {
  openApi: 'api/v1/openapi.json',
  asyncApi: 'api/v1/asyncapi.json',
  page: 'api/v1/docs.html',
  start: 'api/v1/docs/start.js',
  viewer: 'api/v1/docs/redoc.js',
};

/** The paths that the files answer; every other path is the Worker's. */
export const DOCUMENT_PATHS = [
  `/${FILES.openApi}`,
  `/${FILES.asyncApi}`,
  PAGE_PATH,
  `/${FILES.start}`,
  `/${FILES.viewer}`,
];

const NOTHING = "default-src 'none'; frame-ancestors 'none'";
/** Redoc sets styles itself, and searches in a worker that it makes from a blob. */
const OF_PAGE = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  'img-src data:',
  "connect-src 'self'",
  'worker-src blob:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** As the Worker answers. A cache may store a document, and must check before each use that it is current. */
function headersOf(path: string): Record<string, string> {
  return {
    'cache-control': 'no-cache',
    'content-security-policy': path === PAGE_PATH ? OF_PAGE : NOTHING,
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
  return { _headers: `${rules.join('\n')}\n`, _redirects: `${PAGE_PATH} /${FILES.page} 200\n` };
}

/** The same for Miniflare. */
export const DOCUMENT_SETTINGS = {
  headers: {
    version: 2 as const,
    rules: Object.fromEntries(DOCUMENT_PATHS.map((path) => [path, { set: headersOf(path) }])),
  },
  redirects: {
    version: 1 as const,
    staticRules: { [PAGE_PATH]: { status: 200, to: `/${FILES.page}`, lineNumber: 1 } },
    rules: {},
  },
};
