/** Receivers of webhooks that do harm: what each does with the connection of a message, and what its attempt must be. */
import 'reflect-metadata';
import type { Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import * as x509 from '@peculiar/x509';
import type { Behaviour } from './webhook-receiver.ts';

const OK = 'HTTP/1.1 200 OK\r\n';
const SLOWLY_MS = 1_000;
/** What the receiver with an answer without end could send. */
export const bytesOfEndless = { sent: 0 };

function sendEndlessly(socket: Socket): void {
  const chunk = 'x'.repeat(64 * 1_024);
  socket.write(`${OK}content-type: text/plain\r\n\r\n`);
  const send = () => {
    while (!socket.destroyed && socket.write(chunk)) bytesOfEndless.sent += chunk.length;
  };
  socket.on('drain', send);
  send();
}

/** Sends a text one character a second. */
function drip(socket: Socket, text: string): void {
  const characters = text[Symbol.iterator]();
  const timer = setInterval(() => socket.write(characters.next().value ?? 'x'), SLOWLY_MS);
  socket.on('close', () => clearInterval(timer));
}

function sendBomb(socket: Socket): void {
  const bomb = gzipSync(Buffer.alloc(10 * 1_024 * 1_024));
  socket.write(`${OK}content-encoding: gzip\r\ncontent-length: ${bomb.length}\r\n\r\n`);
  socket.end(bomb);
}

export interface Hostile {
  that: string;
  behave: Behaviour;
  atOnce?: boolean;
  isDelivered: boolean;
  /** Absent: 200 if the message is delivered, otherwise none. */
  status?: number;
  error?: RegExp;
}

export const HOSTILE: Hostile[] = [
  { that: 'sends an answer without end', behave: sendEndlessly, isDelivered: true },
  {
    that: 'sends the body of its answer one byte a second',
    behave: (socket) => {
      socket.write(`${OK}content-length: 1000\r\n\r\n`);
      drip(socket, 'slow');
    },
    isDelivered: true,
  },
  {
    that: 'sends the head of its answer one byte a second',
    behave: (socket) => drip(socket, `${OK}x-slow: `),
    isDelivered: false,
    error: /^no answer within 20 s$/,
  },
  { that: 'sends ten megabytes of zeros in few bytes', behave: sendBomb, isDelivered: true },
  {
    that: 'sends a header of a megabyte',
    behave: (socket) => socket.end(`${OK}x-large: ${'x'.repeat(1_024 * 1_024)}\r\n\r\n`),
    isDelivered: false,
  },
  {
    that: 'answers without a status line, as HTTP/0.9 does',
    behave: (socket) => socket.end('<html>It works</html>\n'),
    isDelivered: false,
  },
  {
    that: 'answers with bytes that are no HTTP',
    behave: (socket) =>
      socket.end(Buffer.from(Array.from({ length: 4_096 }, (_, index) => (index * 151) % 256))),
    isDelivered: false,
  },
  {
    that: 'closes each connection at once',
    behave: (socket) => socket.resume().end(),
    atOnce: true,
    isDelivered: false,
  },
  { that: 'closes the connection after the request', behave: (socket) => socket.end(), isDelivered: false },
  { that: 'resets the connection', behave: (socket) => socket.resetAndDestroy(), isDelivered: false },
  { that: 'never answers', behave: () => {}, isDelivered: false, error: /^no answer within 20 s$/ },
  {
    that: 'answers 100 Continue and nothing else',
    behave: (socket) => socket.write('HTTP/1.1 100 Continue\r\n\r\n'),
    isDelivered: false,
    // The runtime takes it for the answer.
    status: 100,
  },
];

/** A certificate of localhost that no authority has signed, and its key. */
export async function selfSigned(): Promise<{ cert: string; key: string }> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: 'CN=localhost',
    signingAlgorithm: algorithm,
    keys,
    extensions: [new x509.SubjectAlternativeNameExtension([{ type: 'dns', value: 'localhost' }])],
  });
  const key = Buffer.from(await crypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64');
  return {
    cert: certificate.toString('pem'),
    key: `-----BEGIN PRIVATE KEY-----\n${key}\n-----END PRIVATE KEY-----\n`,
  };
}
