/** Mail through a real mail server: STARTTLS with a checked certificate, and servers that fail [C-11.1]. */

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { domainToASCII } from 'node:url';
import { SMTPServer } from 'smtp-server';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '#support/stack.ts';
import { type CertificateFiles, ensureCertificates } from '../../tools/certificates.ts';
import { check } from '../../tools/check.ts';
import { edgeSecrets, makeSecrets } from '../../tools/credentials.ts';
import { type Edge, startEdge } from '../../tools/edge.ts';
import { freePort } from '../../tools/ports.ts';

const PASSWORD = 'correct horse battery';

/** An address with its domain as `xn--…`. */
function asSent(address: string): string {
  const at = address.lastIndexOf('@');
  return `${address.slice(0, at)}@${domainToASCII(address.slice(at + 1))}`;
}

interface Received {
  isSecure: boolean;
  /** The sender in the envelope. */
  sender: string;
  user: string | undefined;
  recipients: string[];
  message: string;
}

let folder: string;
let certificates: CertificateFiles;
let foreign: CertificateFiles;
const servers: { close(done: () => void): unknown }[] = [];
const edges: Edge[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sitewire-mail-'));
  certificates = await ensureCertificates(join(folder, 'ours'));
  foreign = await ensureCertificates(join(folder, 'foreign'));
  // Read once, when the first runtime starts.
  process.env.NODE_EXTRA_CA_CERTS = certificates.ca;
});

afterAll(async () => {
  for (const edge of edges) await edge.stop();
  for (const server of servers) await new Promise<void>((resolve) => server.close(resolve));
  rmSync(folder, { recursive: true, force: true });
});

/** A mail server on its own port, and what it received. */
async function mailServer(options: {
  isTls?: boolean;
  tls?: CertificateFiles;
  disabled?: string[];
  refuses?: boolean;
  /** How many recipients the server refuses for the moment, before it accepts one. */
  laterRecipients?: number;
}): Promise<{ port: number; received: Received[] }> {
  const { key, certificate } = options.tls ?? certificates;
  const received: Received[] = [];
  let laterRecipients = options.laterRecipients ?? 0;
  const server = new SMTPServer({
    secure: options.isTls ?? false,
    key: readFileSync(key),
    cert: readFileSync(certificate),
    disabledCommands: options.disabled ?? [],
    onAuth: ({ username, password }, _session, done) => {
      if (username === 'mailer' && password === 'p@ss/word') done(null, { user: username });
      else done(new Error('wrong password'));
    },
    onRcptTo: (_address, _session, done) => {
      if (laterRecipients-- <= 0) return done();
      done(Object.assign(new Error('greylisted, try again later'), { responseCode: 450 }));
    },
    onData: (stream, session, done) => {
      let message = '';
      stream.on('data', (part: Buffer) => {
        message += part.toString();
      });
      stream.on('end', () => {
        if (options.refuses) return done(new Error('mailbox full'));
        const recipients = session.envelope.rcptTo.map(({ address }) => address);
        const { mailFrom } = session.envelope;
        const sender = mailFrom ? mailFrom.address : '';
        received.push({ sender, isSecure: session.secure, user: session.user, recipients, message });
        done();
      });
    },
  });
  // A client that does not trust the certificate breaks the handshake.
  server.on('error', () => {});
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  servers.push(server);
  return { port, received };
}

async function edgeWith(smtpUrl: string, from = 'sitewire@example.com'): Promise<Edge> {
  const edge = await startEdge({
    dataFolder: undefined,
    port: 0,
    secrets: edgeSecrets(makeSecrets('acme')),
    mail: { smtpUrl, from },
    amqp: { host: 'localhost', port: 1, ca: certificates.ca },
  });
  edges.push(edge);
  return edge;
}

/** Registers an address; the answer must not wait for the mail. */
async function register(edge: Edge, email: string): Promise<void> {
  const response = await fetch(`${edge.url}/api/v1/auth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email, password: PASSWORD, name: 'Jana' }),
  });
  expect(response.status).toBe(201);
}

async function waiting(edge: Edge): Promise<{ failures: number }[]> {
  const database = await edge.miniflare.getD1Database('DB');
  return (await database.prepare('SELECT failures FROM mails').all<{ failures: number }>()).results;
}

/** One attempt to send a mail to that server fails. */
async function expectMailKept(smtpUrl: string): Promise<void> {
  const edge = await edgeWith(smtpUrl);
  await register(edge, 'jana@example.com');
  await eventually(async () => (await waiting(edge))[0]?.failures === 1 || undefined, 40_000);
}

describe('a mail server', () => {
  it.each([
    ['by STARTTLS', false, 'smtp'],
    ['with TLS from the start', true, 'smtps'],
  ] as const)('gets the mail %s, after a login', async (_title, isTls, scheme) => {
    const server = await mailServer({ isTls });
    const edge = await edgeWith(`${scheme}://mailer:p%40ss%2Fword@localhost:${server.port}`);
    await register(edge, 'jana@example.com');
    const mail = await eventually(() => server.received[0]);
    expect(mail).toMatchObject({ isSecure: true, user: 'mailer', recipients: ['jana@example.com'] });
    const token = /^([A-Za-z0-9_-]{43})\r$/m.exec(mail.message)?.[1];
    const proved = await fetch(`${edge.url}/api/v1/auth/verify-email`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token }),
    });
    expect(proved.status).toBe(200);
    await eventually(async () => (await waiting(edge)).length === 0 || undefined);
  });

  it.each([
    ['ops&alarms=24%7@xn--bcher-kva.example', 'ops&alarms=24%7@xn--bcher-kva.example', 'Sitewire'],
    ['Energy Desk <noc@example.com>', 'noc@example.com', 'Energy Desk'],
    ['"Desk, Energy" <noc@xn--e1afmkfd.xn--p1ai>', 'noc@xn--e1afmkfd.xn--p1ai', '"Desk, Energy"'],
  ])(
    'gets mails from MAIL_FROM as %s, to an address with signs that the RFC allows [C-15.5]',
    async (from, sender, name) => {
      const server = await mailServer({});
      const edge = await edgeWith(`smtp://mailer:p%40ss%2Fword@localhost:${server.port}`, from);
      const to = "jana&eva=x%y'z@xn--bcher-kva.example";
      await register(edge, to);
      const mail = await eventually(() => server.received[0]);
      // The library of the test's server shows the domains as people read them.
      expect([mail.sender, ...mail.recipients].map(asSent)).toEqual([sender, to]);
      const header = /^From: (.*)\r$/m.exec(mail.message)?.[1];
      expect(header?.replace(/<(.*)>/, (_, address: string) => `<${asSent(address)}>`)).toBe(
        `${name} <${sender}>`,
      );
    },
  );

  it('gets neither the password nor the mail if it offers no STARTTLS', async () => {
    const server = await mailServer({ disabled: ['STARTTLS'] });
    await expectMailKept(`smtp://mailer:p%40ss%2Fword@localhost:${server.port}`);
    expect(server.received).toEqual([]);
  });

  it.each(['smtp', 'smtps'])('gets nothing if its certificate is not trusted (%s)', async (scheme) => {
    const server = await mailServer({ isTls: scheme === 'smtps', tls: foreign });
    await expectMailKept(`${scheme}://mailer:p%40ss%2Fword@localhost:${server.port}`);
    expect(server.received).toEqual([]);
  });

  it('leaves the mail in the outbox if it refuses the login or the mail, or is down', async () => {
    const refusing = await mailServer({ refuses: true });
    const strict = await mailServer({});
    const urls = [
      `smtp://mailer:p%40ss%2Fword@localhost:${refusing.port}`,
      `smtp://mailer:wrong@localhost:${strict.port}`,
      `smtp://mailer:p%40ss%2Fword@localhost:${await freePort()}`,
    ];
    for (const url of urls) await expectMailKept(url);
    expect([...refusing.received, ...strict.received]).toEqual([]);
  }, 120_000);

  it('leaves the mail in the outbox if it closes the connection in the middle, or sends nothing', async () => {
    const closing = createServer((socket) => {
      socket.on('error', () => {});
      socket.write('220 mail.example.com ESMTP\r\n');
      socket.once('data', () => socket.destroy());
    });
    const silent = createServer((socket) => socket.on('error', () => {}));
    for (const server of [closing, silent]) {
      await expectMailKept(`smtp://mailer:p%40ss%2Fword@localhost:${await listening(server)}`);
    }
  }, 120_000);

  it('gets the name of MAIL_FROM in the message, and only its address in the envelope [C-15.5]', async () => {
    const server = await mailServer({});
    const url = `smtp://mailer:p%40ss%2Fword@localhost:${server.port}`;
    const edge = await edgeWith(url, 'Acme Power <no-reply@acme.example>');
    await register(edge, 'jana@example.com');
    const mail = await eventually(() => server.received[0]);
    expect(mail.sender).toBe('no-reply@acme.example');
    expect(mail.message).toMatch(/^From: Acme Power <no-reply@acme\.example>\r$/m);
  });

  it('gets a mail again that it refused for a moment, after a minute and then after five [C-11.1] [C-15.5]', async () => {
    const server = await mailServer({ laterRecipients: 2 });
    const edge = await edgeWith(`smtp://mailer:p%40ss%2Fword@localhost:${server.port}`);
    const database = await edge.miniflare.getD1Database('DB');
    const row = () =>
      database
        .prepare('SELECT failures, due_at_ms FROM mails')
        .first<{ failures: number; due_at_ms: number }>();
    await register(edge, 'jana@example.com');
    for (const [failures, minutes] of [
      [1, 1],
      [2, 5],
    ] as const) {
      const beforeMs = Date.now();
      const failed = await eventually(async () => {
        const found = await row();
        return found?.failures === failures ? found : undefined;
      }, 40_000);
      expect(failed.due_at_ms).toBeGreaterThan(beforeMs + minutes * 60_000 - 40_000);
      expect(failed.due_at_ms).toBeLessThanOrEqual(Date.now() + minutes * 60_000);
      // Not due yet: the scheduled task leaves it.
      await edge.tick();
      expect(await row()).toEqual(failed);
      expect(server.received).toEqual([]);
      await database.prepare('UPDATE mails SET due_at_ms = ?').bind(Date.now()).run();
      await edge.tick();
    }
    const mail = await eventually(() => server.received[0]);
    expect(mail.recipients).toEqual(['jana@example.com']);
    await eventually(async () => (await waiting(edge)).length === 0 || undefined);
  }, 120_000);
});

describe('a mail setting that cannot work', () => {
  it('is named by npm run sitewire -- admin check, at its first step [C-15.5]', async () => {
    const edge = await edgeWith('smtp://mailer:hidden-word@localhost:587', 'nobody');
    const steps: string[] = [];
    const checked = check({
      ...{ baseUrl: edge.url, login: { email: 'jana@example.com', password: PASSWORD } },
      ...{ organizationId: '', plantId: '', timeoutMs: 1_000, done: (step) => steps.push(step) },
    });
    const { message } = await checked.then(
      () => new Error('the check succeeded'),
      (error: Error) => error,
    );
    expect([steps, message]).toEqual([[], expect.stringMatching(/^the edge is ready: .*MAIL_FROM/)]);
    expect(message).not.toContain('hidden-word');
  });
});

async function listening(server: Server): Promise<number> {
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  servers.push({
    close: (done: () => void) => {
      server.close(done);
      server.getConnections(() => {});
    },
  });
  return port;
}
