/**
 * `npm run send -- command.device '{"commands":[…]}'`: publishes a command to the running stack's plant, signed, and prints what
 * becomes of it, with the alarms meanwhile, until it has ended.
 */
import { parseArgs } from 'node:util';
import { readOrder } from './order.ts';
import { Partner, type ReceivedEvent } from './partner.ts';
import { readStack } from './stack-file.ts';

const USAGE = `npm run send -- <key behind the slug> '<payload>' [--unsigned] [--seconds 60]
  a moment in the payload may be "now", "now+8s", "now-30s"`;
const ENDS = ['REJECTED', 'COMPLETED', 'DEVIATED', 'FAILED'];
const QUEUES = ['event.status', 'event.execution', 'event.alarm'];

const options = {
  unsigned: { type: 'boolean', default: false },
  seconds: { type: 'string', default: '60' },
} as const;

function isEnd({ queue, payload }: ReceivedEvent): boolean {
  return queue !== 'event.alarm' && ENDS.includes(String(payload.status));
}

/** Not one that waited in the queue. */
function isNewAlarm({ queue, payload: { raisedAt, clearedAt } }: ReceivedEvent, sinceMs: number): boolean {
  return queue === 'event.alarm' && Date.parse(String(clearedAt ?? raisedAt)) >= sinceMs;
}

try {
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const [key, payloadText, ...rest] = positionals;
  if (!key || !payloadText || rest.length > 0) throw new Error(USAGE);
  const { family, word, payload } = readOrder(key, payloadText, Date.now());
  const { amqp, apiKey, organization, plants } = readStack();
  const partner = await Partner.connect({ ...amqp, ...apiKey, slug: organization.slug });
  for (const queue of QUEUES) await partner.consume(queue);
  const [beganMs, sentAtMs] = [performance.now(), Date.now()];
  const show = (text: string) =>
    console.log(`${((performance.now() - beganMs) / 1_000).toFixed(1).padStart(6)} s  ${text}`);
  const { correlationId } = await partner.publish(family, plants[0]?.id ?? '', payload, {
    signed: !values.unsigned,
    ...(word ? { word } : {}),
  });
  show('confirmed');
  const shown = new Set<ReceivedEvent>();
  const look = (event: ReceivedEvent) => {
    const isOurs = event.correlationId === correlationId;
    if (shown.has(event) || !(isOurs || isNewAlarm(event, sentAtMs))) return false;
    shown.add(event);
    show(`${event.queue.replace('event.', '').padEnd(9)} ${JSON.stringify(event.payload)}`);
    return isOurs && isEnd(event);
  };
  await partner.waitFor(look, 1_000 * Number(values.seconds)).catch(() => show('no end yet'));
  await partner.close();
} catch (error) {
  const { message, code } = error as Error & { code?: string };
  console.error(code?.startsWith('ERR_PARSE_ARGS') ? `${message}\n\n${USAGE}` : message);
  process.exitCode = 1;
}
