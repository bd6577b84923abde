/**
 * `npm run sitewire -- send command.device '{"commands":[…]}'`: publishes a command, signed unless `--unsigned` is given, to
 * the running stack's plant and prints its events, and the alarms meanwhile, until the command has ended or
 * `--seconds` have passed. With `--dry-run` it only asks what the command would be answered, and prints that.
 */
import { parseArgs } from 'node:util';
import { type Order, readOrder } from './order.ts';
import { Partner, type ReceivedEvent, signedPublish } from './partner.ts';
import { showHelp } from './show-help.ts';
import { readStack, type Stack } from './stack-file.ts';

const USAGE = `npm run sitewire -- send <routing key without the slug> '<payload>' [--unsigned] [--seconds 60] [--dry-run]
  a time in the payload may be "now", "now+8s" or "now-30s"`;
showHelp(USAGE);

const ENDS = ['REJECTED', 'COMPLETED', 'DEVIATED', 'FAILED'];
const KEYS = ['event.command.ack', 'event.execution', 'event.alarm'];

const options = {
  unsigned: { type: 'boolean', default: false },
  seconds: { type: 'string', default: '60' },
  'dry-run': { type: 'boolean', default: false },
} as const;

try {
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const [key, payloadText, ...rest] = positionals;
  if (!key || !payloadText || rest.length > 0) throw new Error(USAGE);
  const { family, word, payload } = readOrder(key, payloadText, Date.now());
  const stack = readStack();
  if (values['dry-run']) await askFirst(stack, { family, word, payload }, !values.unsigned);
  else await send(stack, { family, word, payload }, !values.unsigned, Number(values.seconds));
} catch (error) {
  const { message, code } = error as Error & { code?: string };
  console.error(code?.startsWith('ERR_PARSE_ARGS') ? `${message}\n\n${USAGE}` : message);
  process.exitCode = 1;
}

/** Prints what the command would be answered. */
async function askFirst(
  { baseUrl, apiKey, organization, plants }: Stack,
  { family, word, payload }: Order,
  signed: boolean,
): Promise<void> {
  const siteId = plants[0]?.id ?? '';
  const options = { signed, ...(word ? { word } : {}) };
  const { routingKey, body: message } = signedPublish(
    organization.slug,
    apiKey.signingKey,
    family,
    siteId,
    payload,
    options,
  );
  const answer = await fetch(`${baseUrl}/api/v1/vcp/sites/${siteId}/commands/dry-run`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': apiKey.key },
    body: JSON.stringify({ routingKey, message }),
  });
  console.log(JSON.stringify(await answer.json(), null, 2));
  if (!answer.ok) process.exitCode = 1;
}

async function send(
  { amqp, apiKey, organization, plants }: Stack,
  { family, word, payload }: Order,
  signed: boolean,
  seconds: number,
): Promise<void> {
  const partner = await Partner.connect({ ...amqp, ...apiKey, slug: organization.slug });
  for (const event of KEYS) await partner.watch(event);
  const beganMs = performance.now();
  const show = (text: string) =>
    console.log(`${((performance.now() - beganMs) / 1_000).toFixed(1).padStart(6)} s  ${text}`);
  const { correlationId } = await partner.publish(family, plants[0]?.id ?? '', payload, {
    signed,
    ...(word ? { word } : {}),
  });
  show('confirmed');
  const shown = new Set<ReceivedEvent>();
  // Each event type has a separate queue, so the end of a command may arrive before its acknowledgement.
  const missing = new Set(['acknowledgement', 'end']);
  const look = (event: ReceivedEvent) => {
    const isOurs = event.correlationId === correlationId;
    if (shown.has(event) || !(isOurs || event.queue === 'event.alarm')) return false;
    shown.add(event);
    show(`${event.queue.replace(/^event\./, '').padEnd(11)} ${JSON.stringify(event.payload)}`);
    if (!isOurs) return false;
    if (event.queue === 'event.command.ack') missing.delete('acknowledgement');
    if (ENDS.includes(String(event.payload.status))) missing.delete('end');
    return missing.size === 0;
  };
  await partner.waitFor(look, 1_000 * seconds).catch(() => show('the command has not ended yet'));
  await partner.close();
}
