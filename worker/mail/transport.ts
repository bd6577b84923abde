/**
 * Sends one mail: by SMTP, by the platform's e-mail binding, or to the folder of a development stack. SMTP always uses
 * TLS with a checked certificate: from the start with `smtps://`, by STARTTLS with `smtp://`.
 */
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Env } from '../env.ts';
import { type MailServer, mailFault, type Sender, senderOf, serverOf } from './settings.ts';
import type { Mail } from './texts.ts';

/** How long the server may take for each answer; after that the try fails, and the outbox retries. */
const ANSWER_MS = 10_000;
/** How long the whole transfer of one mail may take. */
const WHOLE_MS = 30_000;

/** The sender of a development stack that has none. */
const FOLDER_SENDER: Sender = { name: 'Sitewire', address: 'sitewire@localhost' };

export type Transport = (mail: Mail) => Promise<void>;

/**
 * The configured way to send mails; undefined if mail is off. Throws if the settings are invalid, so that a
 * deployment does not lose mails unnoticed.
 */
export function transportOf(env: Env): Transport | undefined {
  const fault = mailFault(env);
  if (fault !== undefined) throw new Error(fault);
  const { SMTP_URL, MAIL_FROM = '', EMAIL, MAIL_FOLDER } = env;
  const sender = senderOf(MAIL_FROM) ?? FOLDER_SENDER;
  const server = SMTP_URL === undefined ? undefined : serverOf(SMTP_URL);
  if (server) return (mail) => within(WHOLE_MS, sendBySmtp(server, sender, mail));
  if (EMAIL !== undefined) {
    const from = { name: sender.name, email: sender.address };
    return async ({ to, subject, text }) => {
      await within(WHOLE_MS, EMAIL.send({ from, to, subject, text }));
    };
  }
  if (MAIL_FOLDER === undefined) return undefined;
  return async (mail) => {
    const message = await composed(sender, mail);
    const answer = await MAIL_FOLDER.fetch('http://mail/', { method: 'POST', body: message });
    if (!answer.ok) throw new Error(`the mail folder answered ${answer.status}`);
  };
}

/**
 * Sends a mail by SMTP. Nodemailer is loaded when the first mail is sent, so that an isolate without mails
 * needs no memory for it.
 */
async function sendBySmtp(
  { host, port, isTls, credentials }: MailServer,
  sender: Sender,
  mail: Mail,
): Promise<void> {
  const { default: SmtpConnection } = await import('nodemailer/lib/smtp-connection');
  const { address } = sender;
  const message = await composed(sender, mail);
  const socket = await connected(host, port, isTls);
  const connection = new SmtpConnection({
    host,
    // The library gets an open socket, because it would otherwise look up the host itself; the runtime does
    // this better.
    connection: socket,
    secure: isTls,
    secured: isTls,
    requireTLS: true,
    name: address.slice(address.lastIndexOf('@') + 1),
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
        connection.send({ from: address, to: [mail.to] }, message, (error) =>
          error ? reject(error) : resolve(),
        );
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
async function composed(from: Sender, { to, subject, text }: Mail): Promise<Uint8Array> {
  const { default: MimeNode } = await import('nodemailer/lib/mime-node');
  const node = new MimeNode('text/plain; charset=utf-8', { disableFileAccess: true, disableUrlAccess: true });
  node.setHeader({ from, to: { name: '', address: to }, subject });
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
