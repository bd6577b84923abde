#!/usr/bin/env node
/**
 * A partner in Node.js with amqplib (npm install amqplib).
 *
 * To try it, run `npm start` in another terminal, then in the project's folder:
 *
 *     node examples/partner/partner.mjs
 *
 * It charges a battery with a signed command, holds the plant at 20 kW for eight seconds, stops the battery,
 * and prints the events of each command. It exits with 0 if all commands are COMPLETED, otherwise with 1 and
 * an error message.
 *
 * For another deployment set SITEWIRE_AMQP_URI (`amqps.uri` of the key's connectionBundle),
 * SITEWIRE_SIGNING_KEY, SITEWIRE_SITE_ID, SITEWIRE_BATTERY (a sub-device) and, if the listener's certificate
 * is not signed by a public authority, SITEWIRE_CA (a PEM file).
 */
import { createHmac, randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'amqplib';

const TIMEOUT_MS = 60_000;

function fail(text) {
  console.error(text);
  process.exit(1);
}

function settings({ SITEWIRE_AMQP_URI: uri, ...env } = process.env) {
  if (uri) {
    const { SITEWIRE_SIGNING_KEY: signingKey, SITEWIRE_SITE_ID: siteId, SITEWIRE_BATTERY: battery } = env;
    return { uri, signingKey, siteId, battery, ca: env.SITEWIRE_CA };
  }
  const file = join(env.SITEWIRE_DATA_DIR ?? '.dev', 'stack.json');
  if (!existsSync(file))
    fail('no stack is running here: start one with `npm start`, or set SITEWIRE_AMQP_URI');
  const stack = JSON.parse(readFileSync(file, 'utf8'));
  const { amqp, apiKey, organization } = stack;
  const [plant] = stack.plants;
  return {
    uri: `amqps://${organization.slug}:${apiKey.key}@${amqp.host}:${amqp.port}/${apiKey.vhost}`,
    signingKey: apiKey.signingKey,
    siteId: plant.id,
    battery: plant.subDevices.find(({ assetType }) => assetType === 'BESS').deviceId,
    ca: amqp.ca,
  };
}

const { uri, signingKey, siteId, battery, ca } = settings();
/** The user name, the first word of routing keys, and a part of queue names. */
const slug = new URL(uri).username;
/** messageIds of the last events, because an event may be delivered twice. */
const seen = new Set();
/** Handlers of the events of this program's commands, by correlationId. */
const waiting = new Map();

/** The signed envelope. The signature covers the payload exactly as it is sent, character by character. */
function signed(routingKey, payload) {
  const fields = {
    version: '1.1',
    messageId: randomUUID(),
    correlationId: randomUUID(),
    timestamp: new Date().toISOString(),
    source: 'partner.mjs',
    siteId,
  };
  const text = [...Object.values(fields), routingKey, JSON.stringify(payload)].join('|');
  const signature = createHmac('sha256', signingKey).update(text).digest('hex');
  return {
    correlationId: fields.correlationId,
    body: Buffer.from(JSON.stringify({ ...fields, payload, signature })),
  };
}

function onEvent(message) {
  if (!message) return; // the key was revoked: its queues are deleted and the connection is closed
  const { messageId, correlationId, payload } = JSON.parse(message.content.toString());
  if (!seen.has(messageId)) {
    seen.add(messageId);
    if (seen.size > 10_000) seen.delete(seen.values().next().value);
    // Events of other programs with the same key arrive on the same queues; there is no handler for them, so
    // they are ignored.
    waiting.get(correlationId)?.(message.fields.routingKey, payload);
  }
  // Acknowledge last: an event that is not acknowledged is delivered again, also after a crash.
  channel.ack(message);
}

/**
 * A confirm means that the site has recorded the command. After a nack the command is sent again with the
 * same messageId, because a messageId takes effect only once.
 */
async function publish(routingKey, body) {
  for (const pauseMs of [1_000, 2_000, 4_000, undefined]) {
    const nack = await new Promise((resolve) =>
      channel.publish(
        'vcp',
        routingKey,
        body,
        { contentType: 'application/json', persistent: true },
        resolve,
      ),
    );
    if (!nack) return;
    if (pauseMs === undefined)
      throw new Error(`${routingKey}: nacked four times, the site cannot record the command`);
    await sleep(pauseMs);
  }
}

/** Sends a command and waits for its end. */
async function command(title, word, payload) {
  const routingKey = `${slug}.command.${word}`;
  const { correlationId, body } = signed(routingKey, payload);
  const statuses = new Set();
  console.log(title);
  const ended = new Promise((resolve, reject) => {
    const onTimeout = () => reject(new Error(`${title}: not finished within ${TIMEOUT_MS / 1_000} s`));
    const timer = setTimeout(onTimeout, TIMEOUT_MS);
    waiting.set(correlationId, (key, { status, ...rest }) => {
      console.log('   ', key.replace(`${slug}.event.`, ''), status, JSON.stringify(rest));
      statuses.add(status);
      const hasFailed = ['REJECTED', 'PARTIAL', 'DEVIATED', 'FAILED'].includes(status);
      // Acknowledgements and ends are in two queues, so the end of a command may arrive before its
      // acknowledgement.
      const isAcknowledged = statuses.has('ACCEPTED') || statuses.has('QUEUED');
      if (!hasFailed && !(isAcknowledged && statuses.has('COMPLETED'))) return;
      clearTimeout(timer);
      waiting.delete(correlationId);
      if (hasFailed) reject(new Error(`${title}: ${status} ${JSON.stringify(rest)}`));
      else resolve();
    });
  });
  const confirmed = publish(routingKey, body).then(() => console.log('    confirmed'));
  await Promise.all([confirmed, ended]);
}

const toBattery = (name, params) => ({
  commands: [{ deviceId: battery, assetType: 'BESS', command: name, params }],
});

// A long-running program repeats everything from here in a loop, with growing pauses: the service closes
// connections with code 320 when it is deployed. Publish unconfirmed commands again with the same messageId.
// Unacknowledged events are delivered again.
const authorities = ca ? { ca: [readFileSync(ca)] } : {};
const connection = await connect(uri, { noDelay: true, ...authorities }).catch((error) =>
  fail(error.message),
);
connection.on('error', () => {}); // the close event below reports it
connection.on('close', (error) => error && fail(`connection: ${error.message}`));
const channel = await connection.createConfirmChannel();
await channel.prefetch(100);
for (const name of ['status', 'execution']) await channel.consume(`vcp.${slug}.event.${name}`, onEvent);
try {
  await command('battery: charge with 5 kW', 'device', toBattery('BESS_CHARGE', { powerKw: 5 }));
  await command('plant: import 20 kW for eight seconds', 'site-setpoint', {
    type: 'POWER',
    targetValueKw: 20,
    direction: 'IMPORT',
    includeConsumption: true,
    priority: 'NORMAL',
    validFrom: new Date().toISOString(),
    validUntil: new Date(Date.now() + 8_000).toISOString(),
  });
  await command('battery: stop', 'device', toBattery('BESS_STOP', {}));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
await connection.close();
