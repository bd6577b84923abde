/**
 * Sends one mail: by SMTP, by the platform's e-mail binding, or to the folder of a development stack. SMTP always uses
 * TLS with a checked certificate: from the start with `smtps://`, by STARTTLS with `smtp://`.
 */
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Env } from '../env.ts';
import type { Mail } from './texts.ts';

/** How long the server may take for each answer; after that the try fails, and the outbox retries. */
const ANSWER_MS = 10_000;
/** How long the whole transfer of one mail may take. */
const WHOLE_MS = 30_000;

export type Transport = (mail: Mail) => Promise<void>;

/**
 * The configured way to send mails; undefined if mail is off. Throws if the settings are invalid, so that a
 * deployment does not lose mails unnoticed.
 */
export function transportOf(env: Env): Transport | undefined {
  const { SMTP_URL, MAIL_FROM, EMAIL, MAIL_FOLDER } = env;
  const from = MAIL_FROM ?? '';
  if (SMTP_URL !== undefined || EMAIL !== undefined) {
    if (!/^[^\s@<>]+@[^\s@<>]+$/.test(from))
      throw new Error('MAIL_FROM must be the e-mail address that mails are sent from');
  }
  if (SMTP_URL !== undefined) {
    const server = serverOf(SMTP_URL);
    return (mail) => within(WHOLE_MS, sendBySmtp(server, from, mail));
  }
  if (EMAIL !== undefined) {
    return async ({ to, subject, text }) => {
      await within(WHOLE_MS, EMAIL.send({ from: { name: 'Sitewire', email: from }, to, subject, text }));
    };
  }
  if (MAIL_FOLDER === undefined) return undefined;
  return async (mail) => {
    const message = await composed(from || 'sitewire@localhost', mail);
    const answer = await MAIL_FOLDER.fetch('http://mail/', { method: 'POST', body: message });
    if (!answer.ok) throw new Error(`the mail folder answered ${answer.status}`);
  };
}

interface Server {
  host: string;
  port: number;
  isTls: boolean;
  credentials: { user: string; pass: string } | undefined;
}

/** `smtps://user:password@host:465`, or `smtp://…:587`. */
function serverOf(text: string): Server {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || (url.protocol !== 'smtps:' && url.protocol !== 'smtp:') || url.hostname === '')
    throw new Error('SMTP_URL must be smtps://user:password@host:465 or smtp://user:password@host:587');
  const isTls = url.protocol === 'smtps:';
  const { username, password } = url;
  return {
    host: url.hostname,
    port: url.port === '' ? (isTls ? 465 : 587) : Number(url.port),
    isTls,
    credentials:
      username === ''
        ? undefined
        : { user: decodeURIComponent(username), pass: decodeURIComponent(password) },
  };
}

/**
 * Sends a mail by SMTP. Nodemailer is loaded when the first mail is sent, so that an isolate without mails
 * needs no memory for it.
 */
async function sendBySmtp(
  { host, port, isTls, credentials }: Server,
  from: string,
  mail: Mail,
): Promise<void> {
  const { default: SmtpConnection } = await import('nodemailer/lib/smtp-connection');
  const message = await composed(from, mail);
  const socket = await connected(host, port, isTls);
  const connection = new SmtpConnection({
    host,
    // The library gets an open socket, because it would otherwise look up the host itself; the runtime does
    // this better.
    connection: socket,
    secure: isTls,
    secured: isTls,
    requireTLS: true,
    name: from.split('@')[1] ?? 'sitewire',
    greetingTimeout: ANSWER_MS,
    socketTimeout: ANSWER_MS,
    tls: { servername: host },
  });
  try {
    await new Promise<void>((resolve, reject) => {
      // This event is also emitted when the server closes the connection in the middle of a transfer.
      connection.once('error', reject);
      connection.once('end', () => reject(new Error('the mail server closed the connection')));
      const send = () =>
        connection.send({ from, to: [mail.to] }, message, (error) => (error ? reject(error) : resolve()));
      connection.connect((error) => {
        if (error) reject(error);
        else if (!credentials) send();
        else connection.login({ credentials }, (refused) => (refused ? reject(refused) : send()));
      });
    });
    connection.quit();
  } catch (error) {
    connection.close();
    throw error;
  }
}

async function connected(host: string, port: number, isTls: boolean): Promise<Socket> {
  const socket = isTls ? connectTls({ host, port }) : connectTcp({ host, port });
  try {
    await within(
      ANSWER_MS,
      new Promise<void>((resolve, reject) => {
        socket.once(isTls ? 'secureConnect' : 'connect', resolve);
        socket.once('error', reject);
      }),
    );
  } catch (error) {
    socket.destroy();
    throw error;
  }
  return socket;
}

/** The message in the format of RFC 5322. The library encodes every value, so that no value can add a header. */
async function composed(from: string, { to, subject, text }: Mail): Promise<Uint8Array> {
  const { default: MimeNode } = await import('nodemailer/lib/mime-node');
  const node = new MimeNode('text/plain; charset=utf-8', { disableFileAccess: true, disableUrlAccess: true });
  node.setHeader({ from: { name: 'Sitewire', address: from }, to: { name: '', address: to }, subject });
  node.setContent(text);
  return await node.build();
}

async function within<Value>(ms: number, work: Promise<Value>): Promise<Value> {
  let timer: number | null = null;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new Error(`sending of the mail not finished within ${ms / 1_000} s`)),
      ms,
    );
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
