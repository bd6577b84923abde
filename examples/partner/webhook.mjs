#!/usr/bin/env node
/**
 * Receives the events of a key as webhooks in Node.js, and verifies them with the library `standardwebhooks`.
 *
 * To try it, run `npm start` in another terminal, then in the project's folder:
 *
 *     npm run sitewire -- webhook
 *
 * It creates a webhook for the key of the stack, prints each message that has a valid signature, and deletes the webhook
 * when Ctrl-C ends it. A number as argument ends it after so many events: npm run sitewire -- webhook 5
 *
 * For another deployment run `npm install standardwebhooks`, create the webhook with POST /api/v1/partner/webhooks, and
 * set SITEWIRE_WEBHOOK_SECRET to its secret and PORT to the port on which your proxy, which has the certificate, reaches
 * this program. This program then only receives.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';

const HELP = `npm run sitewire -- webhook [number of events]: receives the events of the running stack as webhooks, and verifies them`;
if (process.argv.includes('--help') || process.argv.includes('-h')) {
  console.log(HELP);
  process.exit(0);
}

/** A message is posted again if its answer was lost. Keep the ids in your database, and longer than this program does. */
const known = new Set();
let left = Number(process.argv[2] ?? Number.POSITIVE_INFINITY);
/** The secret is known when the webhook is created; its first message may come a moment earlier. */
const { promise: secretKnown, resolve: knowSecret } = Promise.withResolvers();
const ownSecret = process.env.SITEWIRE_WEBHOOK_SECRET;
if (ownSecret) knowSecret(ownSecret);

const server = createServer(async (request, response) => {
  let body = '';
  request.setEncoding('utf8');
  for await (const part of request) body += part;
  let message;
  try {
    // Checks the signature and that the time is at most five minutes away.
    message = new Webhook(await secretKnown).verify(body, request.headers);
  } catch (error) {
    console.error(`a message was refused: ${error.message}`);
    response.writeHead(401).end();
    return;
  }
  const id = request.headers['webhook-id'];
  const { type, timestamp, data } = message;
  // Answer at once: 2xx says that the message has arrived. Do what takes long afterwards. The first message asks whether
  // you want the events: its challenge is the answer.
  response.writeHead(200).end(type === 'webhook.verify' ? data.challenge : '');
  const isEvent = !type.startsWith('webhook.');
  console.log(id, timestamp, type, JSON.stringify(isEvent ? data.payload : data).slice(0, 120));
  if (known.has(id)) return;
  known.add(id);
  if (isEvent) left -= 1;
  if (left <= 0) await leave();
});

await new Promise((resolve) => server.listen(Number(process.env.PORT ?? 0), resolve));
const stack = ownSecret ? undefined : localStack();
const webhook = stack && (await createWebhook(stack));
console.log(`listening on port ${server.address().port}; Ctrl-C ends`);
process.on('SIGINT', leave);
process.on('SIGTERM', leave);

function localStack() {
  const file = join(process.env.SITEWIRE_DATA_DIR ?? '.dev', 'stack.json');
  if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8'));
  console.error('no stack is running here: start one with `npm start`, or set SITEWIRE_WEBHOOK_SECRET');
  process.exit(1);
}

/** Creates a webhook of the local stack that posts to this program. */
async function createWebhook({ admin, organization, apiKey, baseUrl }) {
  const { accessToken } = await call(baseUrl, '/auth/login', 'POST', {}, admin);
  const headers = { authorization: `Bearer ${accessToken}`, 'x-org-id': organization.id };
  const made = await call(baseUrl, '/partner/webhooks', 'POST', headers, {
    url: `http://localhost:${server.address().port}/`,
    keyId: apiKey.id,
    types: ['ack', 'execution', 'alarm', 'telemetry'],
    description: 'npm run sitewire -- webhook',
  });
  knowSecret(made.secret);
  return { baseUrl, headers, id: made.webhook.id };
}

async function leave() {
  if (webhook) await call(webhook.baseUrl, `/partner/webhooks/${webhook.id}`, 'DELETE', webhook.headers);
  process.exit(0);
}

async function call(baseUrl, path, method, headers, body) {
  const answer = await fetch(`${baseUrl}/api/v1${path}`, {
    method,
    headers: { ...headers, 'content-type': 'application/json' },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return await answer.json();
}
