/**
 * Replaces what differs from run to run in a recorded answer by something that looks alike: ids, times, secrets and
 * addresses. Equal values get equal placeholders, so that the reader sees which id is which.
 */
import type { Stack } from '../../stack-file.ts';

/** The time at which every recorded run begins. */
const BEGIN_MS = Date.UTC(2026, 0, 15, 10);
/** A run takes seconds. Times are rounded to this, so that a slow run has the same ones. */
const STEP_MS = 5 * 60_000;

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const INSTANT = /\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z/g;
/** 32 random bytes as base64url. */
const SECRET = /(?<![\w-])[\w-]{43}(?![\w-])/g;
/** Fields with a sequence of the journal. */
const SEQUENCES = ['sequence', 'next', 'firstKept', 'deliveredUpTo', 'lastSequence'];
const CURSOR = Buffer.from(JSON.stringify([BEGIN_MS, 'id of the last row'])).toString('base64url');
/** Ids that a call chose itself, and those of the platform's templates. */
const KEPT = /^(6f1c2f0a-|5f7e0000-)/;

export class Placeholders {
  readonly #stack: Stack;
  readonly #beganMs: number;
  readonly #ids = new Map<string, string>();

  constructor(stack: Stack, beganMs: number) {
    this.#stack = stack;
    this.#beganMs = beganMs;
  }

  /** A copy of a JSON value with placeholders. */
  in(value: unknown): unknown {
    if (value === undefined) return undefined;
    return JSON.parse(JSON.stringify(value), (key, one: unknown) => this.#of(key, one));
  }

  #of(key: string, value: unknown): unknown {
    if (key === 'durationMs') return 42;
    if (key === 'tookMs') return 0;
    if (key === 'ts') return BEGIN_MS;
    if (key === 'rows') return 1_204;
    if (SEQUENCES.includes(key) && typeof value === 'number') return BEGIN_MS;
    if (key === 'text') return '{"sitewire":"backup",…}\n…';
    if (key === 'next' && typeof value === 'string') return CURSOR;
    if (key === 'port') return this.#port(value);
    if (key === 'userAgent') return 'curl/8.5.0';
    if (key === 'address' && value !== null) return '192.0.2.7';
    return typeof value === 'string' ? this.#text(value) : value;
  }

  #port(value: unknown): unknown {
    const { amqp, mqtt, mqttMtls } = this.#stack;
    return new Map([
      [amqp.port, 5671],
      [mqtt.port, 8885],
      [mqttMtls.port, 8883],
    ]).get(Number(value));
  }

  #text(text: string): string {
    const { amqp, baseUrl } = this.#stack;
    return text
      .replace(/\b(try again in) \d+ s\b/, '$1 42 s')
      .replaceAll(baseUrl, 'https://api.example.com')
      .replace(/http:\/\/127\.0\.0\.1:\d+(?=\/sitewire)/g, 'https://hooks.example.com')
      .replaceAll(`${amqp.host}:${amqp.port}`, 'amqp.example.com:5671')
      .replace(/^mqtts:\/\/.*$/, 'mqtts://mqtt.example.com:8885')
      .replace(/^(localhost|127\.0\.0\.1)$/, 'amqp.example.com')
      .replace(/-----BEGIN ([A-Z ]+)-----[\s\S]*?-----END \1-----/g, '-----BEGIN $1-----…-----END $1-----')
      .replace(/eyJ[\w-]+\.[\w-]+\.[\w-]+/g, 'eyJhbGciOiJFZERTQSJ9.e30.c2lnbmF0dXJl')
      .replace(/\bwhsec_[\w+/]{43}=/g, 'whsec_kR7vQ2mX9bT4nL8cW1zY6dP3sJ5hF0gAeU2iO4tN6vB=')
      .replace(/\bsw_[\w-]{20,}/g, 'sw_kR7vQ2mX9bT4nL8cW1zY6dP3sJ5hF0gA')
      .replace(/\bsw_[\w-]{1,19}(?![\w-])/g, 'sw_kR7vQ2mX')
      .replace(/\bamq\.gen-[\w-]+/g, 'amq.gen-kR7vQ2mX9bT4nL8cW1zY6d')
      .replace(/\bsupport_[\w-]{20,}/g, 'support_kR7vQ2mX9bT4nL8cW1zY6dP3sJ5hF0gA')
      .replace(/\b[0-9a-f]{64}\b/g, '3f'.repeat(32))
      .replace(/"(fromMs|toMs|exportedAtMs|atMs)":\d{13}/g, `"$1":${BEGIN_MS}`)
      .replace(/\b\d+-\d+-1\d{12}\b/g, `7-0-${BEGIN_MS}`)
      .replace(UUID, (id) => this.#id(id))
      .replace(INSTANT, (instant) => this.#time(Date.parse(instant)))
      .replace(/^id: \d+$/gm, `id: ${BEGIN_MS}`)
      .replace(SECRET, 'kR7vQ2mX9bT4nL8cW1zY6dP3sJ5hF0gAeU2iO4tN6vB');
  }

  #id(id: string): string {
    if (KEPT.test(id)) return id;
    const known = this.#ids.get(id);
    if (known !== undefined) return known;
    const next = `0b7a3c52-3f5b-4b8e-9a55-${String(this.#ids.size + 1).padStart(12, '0')}`;
    this.#ids.set(id, next);
    return next;
  }

  #time(atMs: number): string {
    const sinceMs = Math.round((atMs - this.#beganMs) / STEP_MS) * STEP_MS;
    return new Date(BEGIN_MS + sinceMs).toISOString();
  }
}
