/** Code that runs as it is pasted (spec: Connection bundle): it connects, reads, and with the scope for it sends. */
import type { ConnectionBundle } from '../../protocol/api-key-record.ts';

export interface SampleFacts {
  uri: string;
  slug: string;
  key: string;
  signingKey: string;
  /** A plant that the key sees; undefined where there is none yet. */
  siteId: string | undefined;
  restUrl: string;
  mayRead: boolean;
  /** Has vcp:write:device-command: the sample sends a command, signed. */
  maySend: boolean;
}

/** Nobody's plant: a command to it is answered all the same. */
const NO_SITE = '00000000-0000-4000-8000-000000000000';

export function codeSamples(facts: SampleFacts): ConnectionBundle['codeSamples'] {
  return { node: nodeSample(facts), python: pythonSample(facts), curl: curlSample(facts) };
}

function nodeSample({ uri, slug, signingKey, siteId = NO_SITE, maySend }: SampleFacts): string {
  return `// npm install amqplib; then: node sample.cjs
// With a listener whose certificate is your own: NODE_EXTRA_CA_CERTS=ca.pem node sample.cjs
// All the way to COMPLETED, and what to do when a connection is lost: examples/partner/partner.mjs, Partner.java
const { createHmac, randomUUID } = require('node:crypto');
const amqp = require('amqplib');

const URI = '${uri}';
const SLUG = '${slug}';
const SITE_ID = '${siteId}';
const SIGNING_KEY = '${signingKey}';

// Signed is: version|messageId|correlationId|timestamp|source|siteId|routingKey|compact payload
function signed(envelope, routingKey) {
  const { version, messageId, correlationId, timestamp, source, siteId, payload } = envelope;
  const fields = [version, messageId, correlationId, timestamp, source, siteId, routingKey, JSON.stringify(payload)];
  const signature = createHmac('sha256', SIGNING_KEY).update(fields.join('|')).digest('hex');
  return Buffer.from(JSON.stringify({ ...envelope, signature }));
}

async function main() {
  const connection = await amqp.connect(URI);
  connection.on('error', () => {}); // told at its close
  connection.on('close', (error) => {
    console.error('connection closed:', error ? error.message : 'by us');
    process.exit(1);
  });
  const channel = await connection.createConfirmChannel();

  // The queues are there: declare them passively, or not at all.
  // What becomes of a command comes to vcp.${slug}.event.execution, alarms to vcp.${slug}.event.alarm.
  for (const name of ['status', 'telemetry']) {
    const queue = \`vcp.\${SLUG}.event.\${name}\`;
    await channel.checkQueue(queue);
    await channel.consume(queue, (message) => {
      if (!message) return;
      console.log(name === 'status' ? 'ack' : name, message.content.toString());
      channel.ack(message);
    });
  }
${maySend ? nodeCommand() : nodeReadOnly()}}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
`;
}

function nodeCommand(): string {
  return `
  // Harmless: no sub-device is called EXAMPLE, so the ack says REJECTED. Name one of yours, and it is obeyed.
  const routingKey = \`\${SLUG}.command.device\`;
  const envelope = {
    version: '1.1',
    messageId: randomUUID(),
    correlationId: 'sample-1',
    timestamp: new Date().toISOString(),
    source: 'sample',
    siteId: SITE_ID,
    payload: { commands: [{ deviceId: 'EXAMPLE', assetType: 'BESS', command: 'BESS_STOP' }] },
  };
  channel.publish('vcp', routingKey, signed(envelope, routingKey), { contentType: 'application/json' });
  await channel.waitForConfirms();
  console.log('sent', envelope.messageId);
`;
}

function nodeReadOnly(): string {
  return `
  // To send a device command the key needs vcp:write:device-command; sign with signed(envelope, routingKey).
`;
}

function pythonSample({ uri, slug, signingKey, siteId = NO_SITE, maySend }: SampleFacts): string {
  return `# pip install pika; then: python sample.py
# With a listener whose certificate is your own: SSL_CERT_FILE=ca.pem python sample.py
# All the way to COMPLETED, and what to do when a connection is lost: examples/partner/partner.py
import hashlib, hmac, json, sys, uuid
from datetime import datetime, timezone
import pika

URI = '${uri}'
SLUG = '${slug}'
SITE_ID = '${siteId}'
SIGNING_KEY = '${signingKey}'


# Signed is: version|messageId|correlationId|timestamp|source|siteId|routingKey|compact payload
def signed(envelope, routing_key):
    names = ('version', 'messageId', 'correlationId', 'timestamp', 'source', 'siteId')
    payload = json.dumps(envelope['payload'], separators=(',', ':'))
    text = '|'.join([*(envelope[name] for name in names), routing_key, payload])
    signature = hmac.new(SIGNING_KEY.encode(), text.encode(), hashlib.sha256).hexdigest()
    return json.dumps({**envelope, 'signature': signature})


def show(channel, method, properties, body):
    print('ack' if method.routing_key.endswith('.command.ack') else 'telemetry', body.decode(), flush=True)
    channel.basic_ack(method.delivery_tag)


connection = pika.BlockingConnection(pika.URLParameters(URI))
channel = connection.channel()
channel.confirm_delivery()

# The queues are there: declare them passively, or not at all.
# What becomes of a command comes to vcp.${slug}.event.execution, alarms to vcp.${slug}.event.alarm.
for name in ('status', 'telemetry'):
    queue = f'vcp.{SLUG}.event.{name}'
    channel.queue_declare(queue, passive=True)
    channel.basic_consume(queue, show)
${maySend ? pythonCommand() : pythonReadOnly()}
try:
    channel.start_consuming()
except pika.exceptions.ConnectionClosed as error:
    sys.exit(f'connection: {error.reply_code} {error.reply_text}')
`;
}

function pythonCommand(): string {
  return `
# Harmless: no sub-device is called EXAMPLE, so the ack says REJECTED. Name one of yours, and it is obeyed.
routing_key = f'{SLUG}.command.device'
envelope = {
    'version': '1.1',
    'messageId': str(uuid.uuid4()),
    'correlationId': 'sample-1',
    'timestamp': datetime.now(timezone.utc).isoformat(),
    'source': 'sample',
    'siteId': SITE_ID,
    'payload': {'commands': [{'deviceId': 'EXAMPLE', 'assetType': 'BESS', 'command': 'BESS_STOP'}]},
}
properties = pika.BasicProperties(content_type='application/json')
channel.basic_publish('vcp', routing_key, signed(envelope, routing_key), properties)
print('sent', envelope['messageId'], flush=True)
`;
}

function pythonReadOnly(): string {
  return `
# To send a device command the key needs vcp:write:device-command; sign with signed(envelope, routing_key).
`;
}

function curlSample({ key, restUrl, mayRead }: SampleFacts): string {
  const remark = mayRead ? '' : '# This key lacks the scope vcp:read: it is answered 403.\n';
  return `${remark}# Telemetry, registers and the command log too: examples/partner/partner.sh
curl -sS -H 'X-API-Key: ${key}' '${restUrl}'\n`;
}
