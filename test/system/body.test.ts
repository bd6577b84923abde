/** A body that is too large gets 413 and its error body over a real socket, never a reset [C-4.7]. */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { suiteStack } from '#support/suite-stack.ts';

const BYTES = 5_000_000;
const CHUNK = 64 * 1024;
const PATHS = ['/api/v1/vcp/sites', '/api/v1/unknown'];

interface Answer {
  head: string;
  body: string;
  error: string | undefined;
}

const stack = suiteStack();

describe('a body of 5 MB', () => {
  /** A client that sends everything before it reads a byte, as simple clients do. */
  const send = async (head: string[], parts: Iterable<Buffer>): Promise<Answer> => {
    const port = Number(new URL(stack.edge.url).port);
    const socket = connect({ port, host: '127.0.0.1' });
    await once(socket, 'connect');
    const answer: Answer = { head: '', body: '', error: undefined };
    socket.on('error', (error) => {
      answer.error ??= error.message;
    });
    const closed = once(socket, 'close');
    socket.write(`${head.join('\r\n')}\r\n\r\n`);
    for (const part of parts) {
      if (socket.destroyed) break;
      if (!socket.write(part)) await Promise.race([once(socket, 'drain'), closed]);
    }
    let text = '';
    const isWhole = new Promise<void>((resolve) => {
      socket.on('data', (chunk) => {
        text += chunk.toString('utf8');
        const [first = '', rest] = text.split('\r\n\r\n');
        const length = Number(/content-length: (\d+)/i.exec(first)?.[1] ?? Number.NaN);
        if (rest !== undefined && Buffer.byteLength(rest) >= length) resolve();
      });
    });
    await Promise.race([isWhole, closed]);
    socket.destroy();
    const [first = '', rest = ''] = text.split('\r\n\r\n');
    return { ...answer, head: first, body: rest };
  };

  function* inParts(format: (part: Buffer) => Buffer, end?: Buffer): Generator<Buffer> {
    for (let sent = 0; sent < BYTES; sent += CHUNK) {
      yield format(Buffer.alloc(Math.min(CHUNK, BYTES - sent), 'x'));
    }
    if (end) yield end;
  }

  const headOf = (path = '', ...more: string[]) => [
    `POST ${path} HTTP/1.1`,
    'Host: sitewire.example',
    'Content-Type: application/json',
    ...more,
  ];

  const expectTooLarge = ({ head, body, error }: Answer) => {
    expect(error).toBeUndefined();
    expect(head.split('\r\n')[0]).toMatch(/^HTTP\/1\.1 413 /);
    expect(head).toMatch(/x-request-id: \S/i);
    expect(JSON.parse(body)).toMatchObject({ statusCode: 413, code: 'PAYLOAD_TOO_LARGE' });
  };

  it.each(PATHS)('is answered 413 on %s if its length is announced [C-4.7]', async (path) => {
    const head = headOf(path, `Content-Length: ${BYTES}`);
    const parts = inParts((part) => part);
    expectTooLarge(await send(head, parts));
  });

  it.each([
    [PATHS[0], 401],
    [PATHS[1], 404],
  ])(
    'in chunked encoding is answered on %s with %i, as nobody knows its length [C-15.7]',
    async (path, status) => {
      const head = headOf(path, 'Transfer-Encoding: chunked');
      const chunk = (part: Buffer) =>
        Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n')]);
      const answer = await send(head, inParts(chunk, Buffer.from('0\r\n\r\n')));
      expect(answer.error).toBeUndefined();
      expect(JSON.parse(answer.body)).toMatchObject({ statusCode: status });
    },
  );

  it('is answered 413 to fetch as well, ten times in a row, and the next request is served [C-4.7]', async () => {
    for (let attempt = 0; attempt < 10; attempt++) {
      const response = await fetch(`${stack.edge.url}${PATHS[0]}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: 'x'.repeat(BYTES),
      });
      expect([response.status, await response.json()]).toMatchObject([413, { code: 'PAYLOAD_TOO_LARGE' }]);
    }
    expect((await stack.rest('/vcp/sites')).status).toBe(200);
  });
});

describe('a body that never ends', () => {
  /** The first line of the answer to a request whose body has begun; `none` after two seconds. */
  const firstLine = async (head: string[], begin: string): Promise<string> => {
    const socket = connect({ port: Number(new URL(stack.edge.url).port), host: '127.0.0.1' });
    socket.on('error', () => {});
    await once(socket, 'connect');
    socket.write(`${head.join('\r\n')}\r\n\r\n${begin}`);
    const late = new Promise<string>((resolve) => {
      setTimeout(() => resolve('none'), 2_000).unref();
    });
    const answered = once(socket, 'data').then(([chunk]) => String(chunk).split('\r\n')[0] ?? '');
    const line = await Promise.race([answered, late]);
    socket.destroy();
    return line;
  };

  it.each([
    ['with an announced length', 'Content-Length: 1000', '{'],
    ['in chunked encoding', 'Transfer-Encoding: chunked', '1\r\n{\r\n'],
  ])(
    '%s is answered 401 before it has ended, because nobody reads it [C-15.7]',
    async (_, framing, begin) => {
      for (const path of ['/api/v1/vcp/sites', '/api/v1/plants', '/api/v1/partner/webhooks']) {
        const head = [`POST ${path} HTTP/1.1`, 'Host: sitewire.example', 'Content-Type: application/json'];
        const line = await firstLine([...head, framing], begin);
        expect([path, line]).toEqual([path, expect.stringMatching(/^HTTP\/1\.1 401 /)]);
      }
    },
  );
});

describe('the client address header', () => {
  it('does not grant access to a key with restricted addresses when a client sends it itself [C-4.2]', async () => {
    const key = await stack.addKey();
    const database = await stack.edge.miniflare.getD1Database('DB');
    await database
      .prepare('UPDATE api_keys SET allowed_ips = ? WHERE id = ?')
      .bind('["203.0.113.7"]', key.id)
      .run();
    for (const name of ['cf-connecting-ip', 'CF-Connecting-IP', 'x-forwarded-for', 'x-real-ip']) {
      const headers = { 'x-api-key': key.key, [name]: '203.0.113.7' };
      const response = await fetch(`${stack.edge.url}/api/v1/vcp/sites`, { headers });
      expect([name, response.status]).toEqual([name, 403]);
    }
  });
});

describe('a body in very many small parts', () => {
  it.each([
    ['with an announced length', (bytes: number) => ({ 'content-length': String(bytes) })],
    ['in chunked encoding', () => ({})],
  ])('is read as it was sent, %s [C-15.7]', async (_name, headersOf) => {
    // The answer names the unknown field by its beginning and length.
    const letters = Array.from({ length: 3_000 }, (_none, index) => String.fromCharCode(97 + (index % 26)));
    const text = JSON.stringify({ email: 'nobody@example.com', password: 'x', [letters.join('')]: 1 });
    const asked = request(`${stack.edge.url}/api/v1/auth/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headersOf(text.length) },
    });
    asked.setNoDelay(true);
    const answered = once(asked, 'response') as Promise<[IncomingMessage]>;
    for (const letter of text) {
      asked.write(letter);
      await new Promise(setImmediate);
    }
    asked.end();
    const [answer] = await answered;
    const chunks: Buffer[] = [];
    for await (const chunk of answer) chunks.push(chunk as Buffer);
    const { details } = JSON.parse(Buffer.concat(chunks).toString('utf8')) as { details: string[] };
    expect(answer.statusCode).toBe(400);
    expect(details).toEqual([expect.stringContaining(`"${letters.slice(0, 150).join('')}`)]);
    expect(details[0]).toMatch(/\(3\d{3} characters\)/);
  });
});
