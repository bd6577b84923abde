/**
 * Code samples that run without changes (spec: Connection bundle). Those for Node and Python connect, print
 * acknowledgements and telemetry and, if the key may send device commands, first ask what one would do, and then send a
 * harmless one. That for curl lists the sites.
 */

import type { ConnectionBundle } from '../../protocol/api-key-record.ts';
import { supportedDeviceCommands } from '../../protocol/asset.ts';
import type { AssetType } from '../../protocol/enums.ts';
import { javaScriptText, pythonText, shellText } from '../../protocol/quoted.ts';

export interface SampleFacts {
  uri: string;
  slug: string;
  key: string;
  signingKey: string;
  /** A plant that the key may see; undefined if there is none. */
  siteId: string | undefined;
  /** The sub-devices of that plant. */
  assets: readonly { externalId: string; assetType: AssetType }[];
  restUrl: string;
  mayRead: boolean;
  /** The key has vcp:write:device-command, so the sample sends a signed command. */
  maySend: boolean;
}

/** The id of no plant. A command to it still gets an acknowledgement. */
const NO_SITE = '00000000-0000-4000-8000-000000000000';

export function codeSamples(facts: SampleFacts): ConnectionBundle['codeSamples'] {
  return { node: nodeSample(facts), python: pythonSample(facts), curl: curlSample(facts) };
}

function nodeSample(facts: SampleFacts): string {
  const { uri, slug, key, signingKey, siteId = NO_SITE, restUrl, maySend } = facts;
  return `// npm install amqplib; then: node sample.cjs
// If the listener's certificate is from your own CA: NODE_EXTRA_CA_CERTS=ca.pem node sample.cjs
// A complete client, which follows commands to COMPLETED and reconnects: examples/partner (partner.mjs, Partner.java)
const { createHmac, randomUUID } = require('node:crypto');
const amqp = require('amqplib');

const URI = ${javaScriptText(uri)};
const SLUG = ${javaScriptText(slug)};
const SITE_ID = ${javaScriptText(siteId)};
const SIGNING_KEY = ${javaScriptText(signingKey)};
const KEY = ${javaScriptText(key)};
const REST = ${javaScriptText(restUrl)};

// The signed text: version|messageId|correlationId|timestamp|source|siteId|routingKey|compact payload
function signed(envelope, routingKey) {
  const { version, messageId, correlationId, timestamp, source, siteId, payload } = envelope;
  const fields = [version, messageId, correlationId, timestamp, source, siteId, routingKey, JSON.stringify(payload)];
  const signature = createHmac('sha256', SIGNING_KEY).update(fields.join('|')).digest('hex');
  return Buffer.from(JSON.stringify({ ...envelope, signature }));
}

async function main() {
  const connection = await amqp.connect(URI);
  connection.on('error', () => {}); // 'close' reports the error
  connection.on('close', (error) => {
    console.error('connection closed:', error ? error.message : 'by us');
    process.exit(1);
  });
  const channel = await connection.createConfirmChannel();

  // The queues exist: declare them passively or not at all.
  // Results of commands arrive in vcp.${slug}.event.execution, alarms in vcp.${slug}.event.alarm.
  for (const name of ['status', 'telemetry']) {
    const queue = \`vcp.\${SLUG}.event.\${name}\`;
    await channel.checkQueue(queue);
    await channel.consume(queue, (message) => {
      if (!message) return;
      console.log(name === 'status' ? 'ack' : name, message.content.toString());
      channel.ack(message);
    });
  }
${maySend ? nodeCommand(askedItem(facts)) : readOnly('  //', 'routingKey')}}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
`;
}

/** An item of a batch. */
interface Item {
  deviceId: string;
  assetType: AssetType;
  command: string;
}

/** There is no such sub-device, so the command changes nothing. */
const HARMLESS: Item = { deviceId: 'EXAMPLE', assetType: 'BESS', command: 'BESS_STOP' };

/** The command that the sample asks about: it stops a battery or a PV system of the plant, if the plant has one. */
function askedItem({ assets }: SampleFacts): Item {
  for (const { externalId: deviceId, assetType } of assets) {
    const command = supportedDeviceCommands([assetType]).find((one) => one.endsWith('_STOP'));
    if (command) return { deviceId, assetType, command };
  }
  return HARMLESS;
}

const literal = ({ deviceId, assetType, command }: Item) =>
  `deviceId: ${javaScriptText(deviceId)}, assetType: ${javaScriptText(assetType)}, command: ${javaScriptText(command)}`;

function nodeCommand(asked: Item): string {
  return `
  const routingKey = \`\${SLUG}.command.device\`;
  const envelopeOf = (command) => ({
    version: '1.1',
    messageId: randomUUID(),
    correlationId: 'sample-1',
    timestamp: new Date().toISOString(),
    source: 'sample',
    siteId: SITE_ID,
    payload: { commands: [command] },
  });

  // 1. What would a command do? A dry run changes nothing, and the plant gets nothing.
  const asked = envelopeOf({ ${literal(asked)} });
  const answer = await fetch(\`\${REST}/\${SITE_ID}/commands/dry-run\`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': KEY },
    body: JSON.stringify({ routingKey, message: signed(asked, routingKey).toString() }),
  });
  console.log('dry-run', await answer.text());

  // 2. A real command. Harmless: there is no sub-device EXAMPLE, so the ack is REJECTED.
  const envelope = envelopeOf({ ${literal(HARMLESS)} });
  channel.publish('vcp', routingKey, signed(envelope, routingKey), { contentType: 'application/json' });
  await channel.waitForConfirms();
  console.log('sent', envelope.messageId);
`;
}

function pythonSample(facts: SampleFacts): string {
  const { uri, slug, key, signingKey, siteId = NO_SITE, restUrl, maySend } = facts;
  return `# pip install pika; then: python sample.py
# If the listener's certificate is from your own CA: SSL_CERT_FILE=ca.pem python sample.py
# A complete client, which follows commands to COMPLETED and reconnects: examples/partner (partner.py)
import hashlib, hmac, json, sys, urllib.error, urllib.request, uuid
from datetime import datetime, timezone
import pika

URI = ${pythonText(uri)}
SLUG = ${pythonText(slug)}
SITE_ID = ${pythonText(siteId)}
SIGNING_KEY = ${pythonText(signingKey)}
KEY = ${pythonText(key)}
REST = ${pythonText(restUrl)}


# The signed text: version|messageId|correlationId|timestamp|source|siteId|routingKey|compact payload
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

# The queues exist: declare them passively or not at all.
# Results of commands arrive in vcp.${slug}.event.execution, alarms in vcp.${slug}.event.alarm.
for name in ('status', 'telemetry'):
    queue = f'vcp.{SLUG}.event.{name}'
    channel.queue_declare(queue, passive=True)
    channel.basic_consume(queue, show)
${maySend ? pythonCommand(askedItem(facts)) : readOnly('#', 'routing_key')}
try:
    channel.start_consuming()
except pika.exceptions.ConnectionClosed as error:
    sys.exit(f'connection: {error.reply_code} {error.reply_text}')
`;
}

const dictionary = ({ deviceId, assetType, command }: Item) =>
  `{'deviceId': ${pythonText(deviceId)}, 'assetType': ${pythonText(assetType)}, 'command': ${pythonText(command)}}`;

function pythonCommand(asked: Item): string {
  return `
routing_key = f'{SLUG}.command.device'


def envelope_of(command):
    return {
        'version': '1.1',
        'messageId': str(uuid.uuid4()),
        'correlationId': 'sample-1',
        'timestamp': datetime.now(timezone.utc).isoformat(),
        'source': 'sample',
        'siteId': SITE_ID,
        'payload': {'commands': [command]},
    }


def ask(envelope):
    body = json.dumps({'routingKey': routing_key, 'message': signed(envelope, routing_key)}).encode()
    headers = {'content-type': 'application/json', 'x-api-key': KEY}
    request = urllib.request.Request(f'{REST}/{SITE_ID}/commands/dry-run', body, headers)
    try:
        return urllib.request.urlopen(request).read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()


# 1. What would a command do? A dry run changes nothing, and the plant gets nothing.
print('dry-run', ask(envelope_of(${dictionary(asked)})), flush=True)

# 2. A real command. Harmless: there is no sub-device EXAMPLE, so the ack is REJECTED.
envelope = envelope_of(${dictionary(HARMLESS)})
properties = pika.BasicProperties(content_type='application/json')
channel.basic_publish('vcp', routing_key, signed(envelope, routing_key), properties)
print('sent', envelope['messageId'], flush=True)
`;
}

/** The part of a sample that replaces the command if the key may not send commands. */
function readOnly(mark: string, routingKey: string): string {
  return `\n${mark} To send a device command the key needs vcp:write:device-command; sign with signed(envelope, ${routingKey}).\n`;
}

function curlSample({ key, restUrl, mayRead }: SampleFacts): string {
  const remark = mayRead ? '' : '# This key lacks the scope vcp:read, so the answer is 403.\n';
  return `${remark}# Telemetry, meter registers and the command log: examples/partner/partner.sh
curl -sS -H ${shellText(`X-API-Key: ${key}`)} ${shellText(restUrl)}\n`;
}
