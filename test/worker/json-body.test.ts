/** Bodies: JSON, at most 1 MiB, whatever the path then says [C-1.6], [C-4.7]. */
import { beforeAll, describe, expect, it } from 'vitest';
import { expectError, send } from '../support/workerd/rest.ts';
import { createKey, createOrganization } from '../support/workerd/world.ts';

const SITES = '/api/v1/vcp/sites';
const MEBIBYTE = 1024 * 1024;
const JSON_TYPE = { 'content-type': 'application/json' };
const METHODS = ['POST', 'PUT', 'PATCH', 'DELETE'];

let key: string;

beforeAll(async () => {
  key = (await createKey(await createOrganization())).key;
});

/** A body without a length, in parts. */
function chunked(...parts: (string | Uint8Array)[]): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const waiting = parts.map((part) => (typeof part === 'string' ? encoder.encode(part) : part));
  return new ReadableStream({
    pull(controller) {
      const part = waiting.shift();
      if (part) controller.enqueue(part);
      else controller.close();
    },
  });
}

async function post(body: BodyInit, headers: Record<string, string> = JSON_TYPE, method = 'POST') {
  return await send(SITES, { method, key, body, headers });
}

/** No path takes a body yet: one that is read in full ends at the method. */
async function expectRead(response: Response): Promise<void> {
  await expectError(response, 405, 'BAD_REQUEST');
}

describe('a body', () => {
  it('that is JSON is read, whatever the media type’s case and parameters [C-1.6]', async () => {
    const types = [
      'application/json',
      'Application/JSON',
      'application/json; charset=utf-8',
      'application/json;x=1',
    ];
    for (const type of types) await expectRead(await post('{"a":1}', { 'content-type': type }));
    for (const body of ['null', '[]', '"x"', '0', ' {"a":"č"}\n']) await expectRead(await post(body));
    await expectRead(await post('', {}));
  });

  it.each(METHODS)('of %s that is not parseable gets 400 BAD_REQUEST [C-10]', async (method) => {
    const bodies = [
      '{',
      '{"a":1,}',
      "{'a':1}",
      'NaN',
      '{"a":1}{"b":2}',

      'x',
      '\u0000',
      '{"a":01}',
      ' ',
    ];
    for (const body of bodies) {
      const { message } = await expectError(await post(body, JSON_TYPE, method), 400, 'BAD_REQUEST');
      expect(message).toMatch(/JSON/);
    }
  });

  it('that came chunked is held to the same grammar [C-10]', async () => {
    await expectRead(await post(chunked('{"a"', ':"', new Uint8Array([0xc4]), new Uint8Array([0x8d]), '"}')));
    await expectError(await post(chunked('{"a"', ':')), 400, 'BAD_REQUEST');
  });

  it('of another media type, or none, gets 400 BAD_REQUEST [C-1.6]', async () => {
    const types = [
      'text/plain',
      'text/plain;charset=UTF-8, application/json',
      'application/jsonp',
      'application/json-patch+json',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=application/json',
      'text/json',
    ];
    for (const type of types) {
      const { message } = await expectError(await post('{}', { 'content-type': type }), 400, 'BAD_REQUEST');
      expect([type, message]).toEqual([type, expect.stringContaining('application/json')]);
    }
    await expectError(await post(new TextEncoder().encode('{}'), {}), 400, 'BAD_REQUEST');
  });

  it('is nothing that a GET has: its media type is not looked at (spec: GET /vcp/sites)', async () => {
    const response = await send(SITES, { key, headers: { 'content-type': 'text/plain' } });
    expect(response.status).toBe(200);
  });
});

describe('a body’s size', () => {
  const jsonOf = (bytes: number) => `"${'x'.repeat(bytes - 2)}"`;

  it.each(METHODS)(
    'of exactly 1 MiB is read, one byte more gets 413 PAYLOAD_TOO_LARGE (%s) [C-4.7]',
    async (method) => {
      await expectRead(await post(jsonOf(MEBIBYTE), JSON_TYPE, method));
      await expectError(await post(jsonOf(MEBIBYTE + 1), JSON_TYPE, method), 413, 'PAYLOAD_TOO_LARGE');
    },
  );

  it('is counted in bytes, not characters [C-4.7]', async () => {
    await expectError(await post(`"${'č'.repeat(MEBIBYTE / 2)}"`), 413, 'PAYLOAD_TOO_LARGE');
    await expectRead(await post(`"${'č'.repeat(MEBIBYTE / 2 - 1)}"`));
  });

  it('is counted as it comes when nobody announced it [C-4.7]', async () => {
    const part = 'x'.repeat(64 * 1024);
    await expectRead(await post(chunked('"', ...Array.from({ length: 15 }, () => part), '"')));
    const tooMany = Array.from({ length: 17 }, () => part);
    await expectError(await post(chunked('"', ...tooMany, '"')), 413, 'PAYLOAD_TOO_LARGE');
  });

  it('that has no end is given up on, not gathered [C-4.7]', async () => {
    let pulled = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulled += 1;
        controller.enqueue(new Uint8Array(64 * 1024).fill(0x20));
      },
    });
    await expectError(await post(endless), 413, 'PAYLOAD_TOO_LARGE');
    // Read away for a while, so that its sender hears the answer: 64 MiB, and no more.
    expect(pulled).toBeLessThanOrEqual(1_100);
  });

  it('of 5 MB gets 413 before anybody asks for a key (bad input: REST)', async () => {
    const init = { method: 'POST', body: 'x'.repeat(5_000_000), headers: JSON_TYPE };
    await expectError(await send(SITES, init), 413, 'PAYLOAD_TOO_LARGE');
    await expectError(await send('/api/v1/unknown', init), 413, 'PAYLOAD_TOO_LARGE');
  });
});

describe('hostile JSON', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);

  it('nested 10 000 deep gets the envelope, and the next request its answer (bad input: REST)', async () => {
    for (const body of [nested(10_000), `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`, nested(500_000)]) {
      const response = await post(body);
      await expectError(response, response.status, 'BAD_REQUEST');
      expect([400, 405]).toContain(response.status);
    }
    expect((await send(SITES, { key })).status).toBe(200);
  });

  it('nested 10 000 deep is refused as a body, before its method is (bad input: REST)', async () => {
    expect((await post(nested(10_000))).status).toBe(400);
  });

  it('with prototype keys changes nobody’s prototype (bad input: REST)', async () => {
    const bodies = [
      '{"__proto__":{"polluted":true}}',
      '{"constructor":{"prototype":{"polluted":true}}}',
      '{"a":{"__proto__":{"polluted":true}},"toString":1,"hasOwnProperty":1}',
    ];
    for (const body of bodies) await expectRead(await post(body));
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
    expect((await send(SITES, { key })).status).toBe(200);
  });
});
