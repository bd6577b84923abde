/**
 * Each line that the bridge writes: what it says, at which level, with which fields. docs/monitoring.md has the same as
 * a table, and a test holds the two against each other. What clients said of themselves is cut and cleaned here, so that no
 * line carries a credential, however it was mistyped; and lines that a client can cause at will are limited.
 */
import type { Logger } from 'pino';
import { LineLimit } from './line-limit.ts';

interface Line {
  level: 'debug' | 'info' | 'warn' | 'error' | 'fatal';
  fields: readonly string[];
  /** Of one address so many a minute, see LineLimit. */
  isLimited?: true;
}

export const LINES = {
  'bridge listens': {
    level: 'info',
    fields: ['bridge', 'boot', 'version', 'edge', 'amqps', 'mqtts', 'mtls', 'metrics'],
  },
  'bridge did not start': { level: 'fatal', fields: ['why'] },
  'bridge stops': { level: 'info', fields: ['signal'] },
  'bridge stopped': { level: 'info', fields: [] },
  'connection opened': { level: 'info', fields: ['protocol', 'connection', 'address', 'username', 'vhost'] },
  'connection closed': {
    level: 'info',
    fields: ['protocol', 'connection', 'address', 'username', 'vhost', 'seconds', 'reason', 'why'],
  },
  'client refused': {
    level: 'info',
    fields: ['protocol', 'connection', 'address', 'username', 'vhost', 'reason', 'code', 'why'],
    isLimited: true,
  },
  'client left before its login': {
    level: 'debug',
    fields: ['protocol', 'connection', 'address', 'why'],
    isLimited: true,
  },
  'TLS handshake failed': {
    level: 'info',
    fields: ['listener', 'address', 'reason', 'code'],
    isLimited: true,
  },
  'client left amid its TLS handshake': {
    level: 'debug',
    fields: ['listener', 'address', 'code'],
    isLimited: true,
  },
  'connection of a proxy without a good PROXY header': {
    level: 'warn',
    fields: ['listener', 'proxy', 'why'],
    isLimited: true,
  },
  'edge not reached': { level: 'warn', fields: ['protocol', 'connection', 'why'], isLimited: true },
  'edge does not take our proof': {
    level: 'error',
    fields: ['protocol', 'connection', 'why'],
    isLimited: true,
  },
  'lines left out': { level: 'warn', fields: ['address', 'count'] },
  'TLS files in force': { level: 'info', fields: ['serverExpires', 'deviceCaExpires'] },
  'TLS files not taken': { level: 'error', fields: ['why'] },
} as const satisfies Record<string, Line>;

export type Message = keyof typeof LINES;
type Fields<Said extends Message> = Record<
  (typeof LINES)[Said]['fields'][number],
  string | number | undefined
>;

export class BridgeLog {
  readonly #log: Logger;
  readonly #limit = new LineLimit((address, count) =>
    this.tell('lines left out', { address: address === '' ? undefined : address, count }),
  );

  constructor(log: Logger) {
    this.#log = log;
  }

  tell<Said extends Message>(message: Said, fields: Fields<Said>): void {
    const { level, isLimited }: Line = LINES[message];
    if (!this.#log.isLevelEnabled(level)) return;
    const tidied = Object.fromEntries(
      Object.entries<string | number | undefined>(fields).map(([name, value]) => [name, tidy(value)]),
    );
    if (isLimited) {
      const { connection: _own, address, ...alike } = tidied;
      if (!this.#limit.takes(String(address ?? alike.proxy ?? ''), JSON.stringify([message, alike]))) return;
    }
    this.#log[level](tidied, message);
  }

  /** What was left out so far is told now. */
  stop(): void {
    this.#limit.turn();
  }
}

const MAX_CHARS = 256;
/** An API key is known by `sw_` and eight characters; a token by nothing that may be shown. */
const KEY = /(sw_[0-9A-Za-z]{8})[0-9A-Za-z]+/g;
const TOKEN = /eyJ[\w-]*\.[\w.-]*/g;

/** Printable, so long at most, and without what looks like a credential. */
function tidy(value: string | number | undefined): string | number | undefined {
  if (typeof value !== 'string') return value;
  const shown = value
    .slice(0, 4 * MAX_CHARS)
    .replace(KEY, '$1…')
    .replace(TOKEN, 'eyJ…')
    .replace(/\p{C}/gu, '\ufffd');
  return shown.length > MAX_CHARS ? `${shown.slice(0, MAX_CHARS)}…` : shown;
}
