/** Request bodies are JSON of at most 1 MiB, where the path needs a credential [C-1.6], [C-4.7]. */
import { send } from '#workerd/rest.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';

const SITES = '/api/v1/vcp/sites';
const MEBIBYTE = 1024 * 1024;
const JSON_TYPE = { 'content-type': 'application/json' };
const METHODS = ['POST', 'PUT', 'PATCH', 'DELETE'];

const it = test.extend('post', ({ key }) => {
  return (body: BodyInit, headers: Record<string, string> = JSON_TYPE, method = 'POST') =>
    send(SITES, { method, key: key.key, body, headers });
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

/** No path takes a body: a request whose body was read completely gets 405. */
async function expectRead(response: Response): Promise<void> {
  await expectError(response, 405, 'BAD_REQUEST');
}

describe('a body', () => {
  it('is read if it is JSON, whatever the case and parameters of its media type [C-1.6]', async ({
    post,
  }) => {
    const types = ['application/json', 'Application/JSON', 'application/json; charset=utf-8'];
    for (const type of [...types, 'application/json;x=1'])
      await expectRead(await post('{"a":1}', { 'content-type': type }));
    for (const body of ['null', '[]', '"x"', '0', ' {"a":"č"}\n']) await expectRead(await post(body));
    await expectRead(await post('', {}));
  });

  it.for(METHODS)('gets 400 BAD_REQUEST if it is a %s that is not JSON [C-10]', async (method, { post }) => {
    const bodies = ['{', '{"a":1,}', "{'a':1}", 'NaN', '{"a":1}{"b":2}', 'x', '\u0000', '{"a":01}', ' '];
    for (const body of bodies) {
      const { message } = await expectError(await post(body, JSON_TYPE, method), 400, 'BAD_REQUEST');
      expect(message).toMatch(/JSON/);
    }
  });

  it('in chunks is read if it is JSON, and gets 400 if it is not [C-10]', async ({ post }) => {
    await expectRead(await post(chunked('{"a"', ':"', new Uint8Array([0xc4]), new Uint8Array([0x8d]), '"}')));
    await expectError(await post(chunked('{"a"', ':')), 400, 'BAD_REQUEST');
  });

  it('gets 400 BAD_REQUEST with another media type, or with none [C-1.6]', async ({ post }) => {
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

  it('the media type of a GET is ignored (spec: GET /vcp/sites)', async ({ key }) => {
    const response = await key.call('/vcp/sites', { headers: { 'content-type': 'text/plain' } });
    expect(response.status).toBe(200);
  });
});

describe('the size of a body', () => {
  const jsonOf = (bytes: number) => `"${'x'.repeat(bytes - 2)}"`;

  it.for(METHODS)(
    'a %s of exactly 1 MiB is read, one byte more gets 413 PAYLOAD_TOO_LARGE [C-4.7]',
    async (method, { post }) => {
      await expectRead(await post(jsonOf(MEBIBYTE), JSON_TYPE, method));
      await expectError(await post(jsonOf(MEBIBYTE + 1), JSON_TYPE, method), 413, 'PAYLOAD_TOO_LARGE');
    },
  );

  it('is counted in bytes, not in characters: more than 1 MiB gets 413 [C-4.7]', async ({ post }) => {
    await expectError(await post(`"${'č'.repeat(MEBIBYTE / 2)}"`), 413, 'PAYLOAD_TOO_LARGE');
    await expectRead(await post(`"${'č'.repeat(MEBIBYTE / 2 - 1)}"`));
  });

  it('is counted as the body arrives if it has no Content-Length: more than 1 MiB gets 413 [C-4.7]', async ({
    post,
  }) => {
    const part = 'x'.repeat(64 * 1024);
    await expectRead(await post(chunked('"', ...Array.from({ length: 15 }, () => part), '"')));
    const tooMany = Array.from({ length: 17 }, () => part);
    await expectError(await post(chunked('"', ...tooMany, '"')), 413, 'PAYLOAD_TOO_LARGE');
  });

  it('is compared as Content-Length announces it: 1 MiB is read, and one byte more gets 413 before the key is checked [C-4.7]', async ({
    post,
  }) => {
    const headers = (bytes: number) => ({ ...JSON_TYPE, 'content-length': String(bytes) });
    const init = (bytes: number) => ({ method: 'POST', body: jsonOf(bytes), headers: headers(bytes) });
    await expectRead(await post(jsonOf(MEBIBYTE), headers(MEBIBYTE)));
    await expectError(await send(SITES, init(MEBIBYTE)), 401, 'UNAUTHORIZED');
    await expectError(await send(SITES, init(MEBIBYTE + 1)), 413, 'PAYLOAD_TOO_LARGE');
  });

  it('an endless body gets 413, and the Worker stops reading it [C-4.7]', async ({ post }) => {
    let pulled = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulled += 1;
        controller.enqueue(new Uint8Array(64 * 1024).fill(0x20));
      },
    });
    await expectError(await post(endless), 413, 'PAYLOAD_TOO_LARGE');
    // The Worker reads on for at most 64 MiB, so that the sender gets the answer.
    expect(pulled).toBeLessThanOrEqual(1_100);
  });

  it('a body of 5 MB gets 413 before the key is checked if its length says so, else 401 (bad input: REST)', async () => {
    const init = { method: 'POST', body: 'x'.repeat(5_000_000), headers: JSON_TYPE };
    const announced = { ...init, headers: { ...JSON_TYPE, 'content-length': '5000000' } };
    await expectError(await send(SITES, announced), 413, 'PAYLOAD_TOO_LARGE');
    await expectError(await send('/api/v1/unknown', announced), 413, 'PAYLOAD_TOO_LARGE');
    await expectError(await send(SITES, init), 401, 'UNAUTHORIZED');
  });
});

describe('the encoding of a body', () => {
  /** Bytes that are not UTF-8, and the offset of the first wrong one. */
  const WRONG: [what: string, bytes: number[], at: number][] = [
    ['a Latin-1 letter', [0x22, 0xe8, 0x22], 1],
    ['a byte that no text has', [0x22, 0x61, 0xff, 0x22], 2],
    ['a continuation byte alone', [0x22, 0x80, 0x22], 1],
    ['an overlong slash', [0x22, 0xc0, 0xaf, 0x22], 1],
    ['an overlong form of three bytes', [0x22, 0xe0, 0x80, 0xaf, 0x22], 1],
    ['an encoded surrogate', [0x22, 0xed, 0xa0, 0x80, 0x22], 1],
    ['a character beyond U+10FFFF', [0x22, 0xf4, 0x90, 0x80, 0x80, 0x22], 1],
    ['a character cut off at the end', [0x22, 0x61, 0xe2, 0x82], 2],
    ['UTF-16 with its mark', [0xff, 0xfe, 0x7b, 0x00, 0x7d, 0x00], 0],
    ['an error after a good character', [0x22, 0xc4, 0x8d, 0xf0, 0x9f, 0x98, 0x80, 0xfe, 0x22], 7],
  ];
  const MARK = [0xef, 0xbb, 0xbf];

  it.for(METHODS)(
    'is refused in a %s with the offset if it is not UTF-8 [C-15.8]',
    async (method, { post }) => {
      for (const [what, bytes, at] of WRONG) {
        const body = Uint8Array.from(bytes);
        const { message } = await expectError(await post(body, JSON_TYPE, method), 400, 'BAD_REQUEST');
        expect([what, message]).toEqual([what, expect.stringMatching(new RegExp(`UTF-8.*\\b${at}\\b`))]);
      }
    },
  );

  it('is refused with the offset in the whole body, however the body is cut [C-15.8]', async ({ post }) => {
    for (const [what, bytes, at] of WRONG)
      for (let cutAt = 1; cutAt < bytes.length; cutAt++) {
        const parts = [bytes.slice(0, cutAt), bytes.slice(cutAt)].map((part) => Uint8Array.from(part));
        const { message } = await expectError(await post(chunked(...parts)), 400, 'BAD_REQUEST');
        expect([what, message]).toEqual([what, expect.stringMatching(new RegExp(`UTF-8.*\\b${at}\\b`))]);
      }
  });

  it('is named with its offset behind a mark, which counts as three bytes [C-15.8]', async ({ post }) => {
    const { message } = await expectError(
      await post(Uint8Array.from([...MARK, 0x22, 0xff, 0x22])),
      400,
      'BAD_REQUEST',
    );
    expect(message).toMatch(/UTF-8.*\b4\b/);
  });

  it('may begin with one byte order mark [C-15.8]', async ({ post }) => {
    await expectRead(await post(Uint8Array.from([...MARK, 0x7b, 0x7d])));
    await expectRead(
      await post(chunked(Uint8Array.from(MARK.slice(0, 2)), Uint8Array.from([0xbf, 0x7b, 0x7d]))),
    );
    await expectError(await post(Uint8Array.from([...MARK, ...MARK, 0x7b, 0x7d])), 400, 'BAD_REQUEST');
    await expectError(await post(Uint8Array.from([0x7b, ...MARK, 0x7d])), 400, 'BAD_REQUEST');
  });

  it('may be named by a charset only if that is UTF-8: another one gets 415 [C-15.8]', async ({ post }) => {
    for (const good of ['utf-8', 'UTF-8', '"utf-8"', '"UTF-8"', 'utf8'])
      await expectRead(await post('{}', { 'content-type': `application/json; charset=${good}` }));
    for (const wrong of [
      'iso-8859-1',
      'utf-16',
      'utf-16le',
      'us-ascii',
      'windows-1250',
      '""',
      '"utf-8x"',
      'x',
    ])
      for (const parameters of [`charset=${wrong}`, `a=b;  Charset=${wrong}`]) {
        const answer = await post('{}', { 'content-type': `application/json; ${parameters}` });
        const { message } = await expectError(answer, 415, 'BAD_REQUEST');
        expect(message).toMatch(/charset.*utf-8/i);
      }
  });
});

describe('hostile JSON', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);

  it('JSON nested 10 000 deep gets the error envelope, and the next request is answered (bad input: REST)', async ({
    key,
    post,
  }) => {
    for (const body of [nested(10_000), `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`, nested(500_000)]) {
      const response = await post(body);
      await expectError(response, response.status, 'BAD_REQUEST');
      expect([400, 405]).toContain(response.status);
    }
    expect((await key.call('/vcp/sites')).status).toBe(200);
  });

  it('JSON 10 000 deep gets 400 even where its method would get 405 (bad input: REST)', async ({ post }) => {
    expect((await post(nested(10_000))).status).toBe(400);
  });

  it('JSON with prototype keys changes no prototype (bad input: REST)', async ({ key, post }) => {
    const bodies = [
      '{"__proto__":{"polluted":true}}',
      '{"constructor":{"prototype":{"polluted":true}}}',
      '{"a":{"__proto__":{"polluted":true}},"toString":1,"hasOwnProperty":1}',
    ];
    for (const body of bodies) await expectRead(await post(body));
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
    expect((await key.call('/vcp/sites')).status).toBe(200);
  });
});
