/**
 * Every log line of the bridge: message, level and fields. docs/monitoring.md repeats them as a table, and a
 * test compares the two. Values from clients are cut and cleaned here, so that no line contains an API key or a
 * token. Lines that a client without a valid credential can cause as often as it wants are limited.
 */
import type { Logger } from 'pino';
import { LineLimit } from './line-limit.ts';

interface Line {
  level: 'debug' | 'info' | 'warn' | 'error' | 'fatal';
  fields: readonly string[];
  /** Limited per address and minute, see LineLimit. */
  isLimited?: true;
}

export const LINES = {
  'bridge listening': {
    level: 'info',
    fields: ['bridge', 'boot', 'version', 'edge', 'amqps', 'mqtts', 'mtls', 'metrics'],
  },
  'bridge did not start': { level: 'fatal', fields: ['why'] },
  'bridge stopping': { level: 'info', fields: ['signal'] },
  'bridge stopped': { level: 'info', fields: [] },
  'connection opened': { level: 'info', fields: ['protocol', 'connection', 'address', 'username', 'vhost'] },
  'connection closed': {
    level: 'info',
    fields: ['protocol', 'connection', 'address', 'username', 'vhost', 'seconds', 'reason', 'why'],
  },
  'client not connected': {
    level: 'info',
    fields: ['protocol', 'connection', 'address', 'username', 'vhost', 'reason', 'code', 'why'],
    isLimited: true,
  },
  'client disconnected before login': {
    level: 'debug',
    fields: ['protocol', 'connection', 'address', 'why'],
    isLimited: true,
  },
  'TLS handshake failed': {
    level: 'info',
    fields: ['listener', 'address', 'reason', 'code'],
    isLimited: true,
  },
  'client disconnected during TLS handshake': {
    level: 'debug',
    fields: ['listener', 'address', 'code'],
    isLimited: true,
  },
  'oldest connection without a login closed': { level: 'info', fields: ['address'], isLimited: true },
  'proxy connection without a valid PROXY header': {
    level: 'warn',
    fields: ['listener', 'proxy', 'why'],
    isLimited: true,
  },
  'dial to edge failed': { level: 'warn', fields: ['protocol', 'connection', 'why'], isLimited: true },
  'edge rejected the bridge proof': {
    level: 'error',
    fields: ['protocol', 'connection', 'why'],
    isLimited: true,
  },
  'log lines suppressed': { level: 'warn', fields: ['address', 'count'] },
  'TLS files loaded': { level: 'info', fields: ['serverExpires', 'deviceCaExpires'] },
  'TLS reload failed, keeping the previous files': { level: 'error', fields: ['why'] },
} as const satisfies Record<string, Line>;

export type Message = keyof typeof LINES;
type Fields<Said extends Message> = Record<
  (typeof LINES)[Said]['fields'][number],
  string | number | undefined
>;

export class BridgeLog {
  readonly #log: Logger;
  readonly #limit = new LineLimit((address, count) =>
    this.write('log lines suppressed', { address: address === '' ? undefined : address, count }),
  );

  constructor(log: Logger) {
    this.#log = log;
  }

  write<Said extends Message>(message: Said, fields: Fields<Said>): void {
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

  /** Logs the number of lines suppressed in the current minute. */
  stop(): void {
    this.#limit.turn();
  }
}

const MAX_CHARS = 256;
/**
 * Of an API key, `sw_` and the next eight characters may be logged; of a token only `eyJ`, with which every
 * token begins.
 */
const KEY = /(sw_[0-9A-Za-z]{8})[0-9A-Za-z]+/g;
const TOKEN = /eyJ[\w-]*\.[\w.-]*/g;

/** Makes a value printable, cuts it to `MAX_CHARS` and removes anything that looks like a credential. */
function tidy(value: string | number | undefined): string | number | undefined {
  if (typeof value !== 'string') return value;
  const shown = value
    .slice(0, 4 * MAX_CHARS)
    .replace(KEY, '$1…')
    .replace(TOKEN, 'eyJ…')
    .replace(/\p{C}/gu, '\ufffd');
  return shown.length > MAX_CHARS ? `${shown.slice(0, MAX_CHARS)}…` : shown;
}
