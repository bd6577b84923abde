/** POST /csp-report: reports of browsers are logged and answered without a login [C-1.6], [C-10]. */
import { vi } from 'vitest';
import { anonymous } from '#workerd/client.ts';
import { send } from '#workerd/rest.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';

const PATH = '/api/v1/csp-report';
const REPORT = { 'csp-report': { 'document-uri': 'https://sitewire.example/', 'blocked-uri': 'inline' } };
const TYPES = ['application/csp-report', 'application/reports+json', 'application/json'];

/** The arguments of each warning in the log. */
const it = test.extend('logged', { auto: true }, () => {
  return vi.spyOn(console, 'warn').mockReturnValue().mock.calls;
});

function report(body: BodyInit, type = 'application/csp-report', headers: Record<string, string> = {}) {
  return send(PATH, { method: 'POST', body, headers: { 'content-type': type, ...headers } });
}

describe('a report', () => {
  it.for(TYPES)(
    'as %s gets 200 CSP_VIOLATION_LOGGED and is logged [C-1.6] [C-10]',
    async (type, { logged }) => {
      for (const spelled of [type, type.toUpperCase(), `${type}; charset=utf-8`]) {
        const response = await report(JSON.stringify(REPORT), spelled);
        expect(response.status).toBe(200);
        expect(await response.json()).toEqual({
          statusCode: 200,
          message: expect.stringMatching(/\S/),
          error: 'OK',
          code: 'CSP_VIOLATION_LOGGED',
        });
      }
      expect(logged).toEqual(
        Array.from({ length: 3 }, () => [
          'report of a content security policy violation received',
          { report: JSON.stringify(REPORT) },
        ]),
      );
    },
  );

  it('needs no session and may come from any origin [C-1.6]', async () => {
    const headers = { origin: 'null', 'sec-fetch-site': 'cross-site', cookie: 'access_token=x' };
    const response = await report(JSON.stringify([REPORT]), 'application/reports+json', headers);
    expect([response.status, response.headers.get('set-cookie')]).toEqual([200, null]);
  });

  it('is logged as one line of at most 2 000 characters', async ({ logged }) => {
    await report(JSON.stringify({ a: 'x'.repeat(50_000), b: '\r\nforged line' }));
    await report(JSON.stringify({ b: '\r\nforged line' }));
    const [long, short] = logged.map(([, about]) => (about as { report: string }).report);
    expect(long).toHaveLength(2_000);
    expect(short).not.toMatch(/[\r\n]/);
  });

  it('gets 200 with any JSON, even null', async () => {
    for (const body of ['{}', '[]', 'null', '0', '"x"', '{"__proto__":{"a":1},"constructor":1}']) {
      expect([body, (await report(body)).status]).toEqual([body, 200]);
    }
    expect(({} as Record<string, unknown>).a).toBeUndefined();
  });
});

describe('a request that is no report', () => {
  it('gets 400 or 413 if it is of a wrong media type, too large, too deep or malformed, and is not logged [C-1.6] [C-4.7]', async ({
    logged,
  }) => {
    const right = JSON.stringify(REPORT);
    for (const type of ['text/plain', 'application/csp-reports', 'application/xml', 'text/csp-report', '']) {
      await expectError(await report(right, type), 400, 'BAD_REQUEST');
    }
    for (const body of ['{', 'x', ' ', '['.repeat(10_000) + ']'.repeat(10_000)]) {
      await expectError(await report(body), 400, 'BAD_REQUEST');
    }
    await expectError(await report(`"${'x'.repeat(1024 * 1024)}"`), 413, 'PAYLOAD_TOO_LARGE');
    await expectError(await anonymous.post('/csp-report'), 400, 'VALIDATION_ERROR');
    expect(logged).toEqual([]);
  });

  it('gets 405 with another method [C-10]', async () => {
    for (const method of ['GET', 'PUT', 'DELETE'] as const) {
      const response = await anonymous.call('/csp-report', { method });
      expect(response.headers.get('allow')).toBe('POST');
      await expectError(response, 405, 'BAD_REQUEST');
    }
  });

  it.for(TYPES.filter((type) => type !== 'application/json'))(
    'to a path that takes no reports is refused with the media type %s, and not logged [C-1.6]',
    async (type, { logged }) => {
      const init = { method: 'POST', body: '{}', headers: { 'content-type': type } };
      for (const path of ['/api/v1/auth/login', '/api/v1/auth/refresh']) {
        const { message } = await expectError(await send(path, init), 400, 'BAD_REQUEST');
        expect([path, message]).toEqual([path, expect.stringContaining(`"${type}"`)]);
      }
      await expectError(await send('/api/v1/organizations', init), 401, 'UNAUTHORIZED');
      await expectError(await send(`${PATH}/`, init), 404, 'NOT_FOUND');
      expect(logged).toEqual([]);
    },
  );
});
