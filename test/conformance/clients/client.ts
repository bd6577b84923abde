/**
 * Code that the TypeScript clients share: the broker's address, a signed command, and their output lines for
 * the test.
 */
import { createHmac, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const {
  AMQP_URL = '',
  WRONG_URL = '',
  CA_FILE = '',
  SLUG = '',
  SIGNING_KEY = '',
  SITE_ID = '',
} = process.env;

export const broker = {
  url: AMQP_URL,
  /** The same URL with an invalid key. */
  wrongUrl: WRONG_URL,
  ca: readFileSync(CA_FILE, 'utf8'),
  routingKey: `${SLUG}.command.device`,
  statusQueue: `vcp.${SLUG}.event.status`,
  deadLetterQueue: `vcp.${SLUG}.dead-letter`,
};

/** A command to a battery in its signed envelope. Returns its correlation id and the text to publish. */
export function signedCommand(): { id: string; body: string } {
  const command = { deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw: 5 } };
  const envelope = {
    version: '1.1',
    messageId: randomUUID(),
    correlationId: randomUUID(),
    timestamp: new Date().toISOString(),
    source: 'acme-trader',
    siteId: SITE_ID,
  };
  const payload = { commands: [command] };
  const signed = [...Object.values(envelope), broker.routingKey, JSON.stringify(payload)].join('|');
  const signature = createHmac('sha256', SIGNING_KEY).update(signed).digest('hex');
  return { id: envelope.correlationId, body: JSON.stringify({ ...envelope, payload, signature }) };
}

/** Reads an acknowledgement event: the decision, and the command it belongs to. */
export function readStatus(body: string): { correlationId: string; status: string } {
  const { correlationId, payload } = JSON.parse(body);
  return { correlationId, status: payload.status };
}

export function say(...words: unknown[]): void {
  console.log(words.join(' '));
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Waits for the test's next line, which says that the broker is available. */
export async function resumed(): Promise<void> {
  await lines.next();
}

/** Stops listening, so the process ends by itself. */
export function done(): void {
  say('bye');
  process.stdin.destroy();
}
