#!/usr/bin/env node
/**
 * A device in Node.js with the package `mqtt`.
 *
 *     device.mjs PACKAGE.json
 *
 * PACKAGE.json is the device's provisioning package. If the file does not exist, the program fetches it once,
 * with SITEWIRE_URL, SITEWIRE_DEVICE_ID and SITEWIRE_ADMIN_TOKEN. Then it sends telemetry every
 * SITEWIRE_INTERVAL seconds, executes signed commands, stores the tokens that the platform sends, and renews
 * its token with its secret when the token is rejected. It runs until it is stopped.
 */
import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { connect } from 'mqtt';

const [, , FILE] = process.argv;
const URL_BASE = process.env.SITEWIRE_URL ?? 'http://127.0.0.1:8787';
const INTERVAL_MS = 1_000 * Number(process.env.SITEWIRE_INTERVAL ?? 5);
const MAX_SKEW_MS = 300_000;
const REFUSED = 5;

const report = (event, details = {}) => console.log(JSON.stringify({ event, ...details }));

async function post(path, body, headers = {}) {
  const response = await fetch(`${URL_BASE}/api/v1${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
  return await response.json();
}

/** Writes the whole file or nothing. Only its owner can read it: it contains the secret. */
function store(provisioned) {
  writeFileSync(`${FILE}.new`, JSON.stringify(provisioned), { mode: 0o600 });
  renameSync(`${FILE}.new`, FILE);
}

if (!existsSync(FILE)) {
  const { SITEWIRE_DEVICE_ID: id, SITEWIRE_ADMIN_TOKEN: token } = process.env;
  store(await post(`/devices/${id}/provision`, {}, { authorization: `Bearer ${token}` }));
}
const provisioned = JSON.parse(readFileSync(FILE, 'utf8'));
const { deviceId, security } = provisioned;
if (provisioned.authMethod !== 'TOKEN')
  throw new Error('this program connects with a token: register the device with authMethod TOKEN');
const { topics } = provisioned.mqtt;
/**
 * Outcomes of the last thousand commands by cmdId. They are stored because a command may arrive several
 * times, but must be executed once.
 */
const outcomes = new Map();

function sign(...fields) {
  return createHmac('sha256', security.hmacSecret).update(fields.join('|')).digest('hex');
}

/** The characters of a member as received, without whitespace outside strings: this text is signed. */
function member(text, name) {
  let out = '';
  let depth = 0;
  let quoted = false;
  for (let at = text.indexOf(`"${name}":`) + name.length + 3; at < text.length; at++) {
    const char = text[at];
    if (quoted && char === '\\') {
      out += char + text[++at];
      continue;
    }
    if (char === '"') quoted = !quoted;
    if (!quoted && '{['.includes(char)) depth += 1;
    if (!quoted && '}]'.includes(char)) depth -= 1;
    if (quoted || !/\s/.test(char)) out += char;
    if (depth === 0 && !quoted && out) return out;
  }
  throw new Error(`the message has no member "${name}"`);
}

/** Resends the same characters until the PUBACK: the platform has stored the message, or dropped and counted it. */
function publish(name, payload) {
  const send = () =>
    client.publish(topics[name], payload, { qos: 1 }, (error) => {
      if (!error) report('stored', { topic: name });
      else if (!client.disconnecting) client.once('connect', send);
    });
  report('sent', { topic: name });
  send();
}

function acknowledge(cmdId, status) {
  const ts = Date.now();
  publish('ack', JSON.stringify({ cmdId, status, ts, sig: sign(deviceId, cmdId, ts, status) }));
}

/** Executes a command; returns false if the device cannot execute it. */
function execute({ action, payload }) {
  if (action === 'TOKEN_REFRESH') {
    Object.assign(security, { mqttToken: payload.token, tokenExpiresAt: payload.expiresAt });
    store(provisioned);
    // The client uses the new token from its next connect on.
    client.options.password = payload.token;
    report('refreshed', { expiresAt: payload.expiresAt });
  }
  return true;
}

function onCommand(text) {
  const command = JSON.parse(text);
  const { cmdId, ts, action, sig } = command;
  const expected = sign(deviceId, cmdId, ts, action, member(text, 'payload'));
  const isSigned = sig.length === expected.length && timingSafeEqual(Buffer.from(sig), Buffer.from(expected));
  if (!isSigned || Math.abs(Date.now() - ts) > MAX_SKEW_MS) {
    report('ignored', { cmdId });
    return;
  }
  report('command', { action, cmdId });
  if (!outcomes.has(cmdId)) {
    acknowledge(cmdId, 'RECEIVED');
    outcomes.set(cmdId, execute(command) ? 'COMPLETED' : 'FAILED');
    if (outcomes.size > 1_000) outcomes.delete(outcomes.keys().next().value);
  }
  acknowledge(cmdId, outcomes.get(cmdId));
}

/** Gets a new token with the secret, because the current token was rejected. */
async function renew() {
  const ts = Date.now();
  const nonce = randomUUID();
  try {
    const body = { ts, nonce, sig: sign(deviceId, ts, nonce, 'RENEW') };
    execute({ action: 'TOKEN_REFRESH', payload: await post(`/devices/${deviceId}/mqtt-token/renew`, body) });
  } catch (error) {
    report('not renewed', { error: error.message });
  }
}

function sendTelemetry() {
  if (!client.connected) return;
  const ts = Date.now();
  const nonce = randomUUID();
  const data = JSON.stringify({ powerKw: Math.round(Math.random() * 1e4) / 1e3, temperatureCelsius: 21.5 });
  const sig = sign(deviceId, ts, nonce, data);
  publish('telemetry', `{"ts":${ts},"nonce":"${nonce}","data":${data},"sig":"${sig}"}`);
}

const client = connect({
  protocol: 'mqtts',
  host: new URL(provisioned.mqtt.broker).hostname,
  port: provisioned.mqtt.port,
  ...(security.caCertificate ? { ca: security.caCertificate } : {}),
  clientId: deviceId,
  username: deviceId,
  password: security.mqttToken,
  clean: true,
  keepalive: 60,
  reconnectPeriod: 1_000,
  // CONNACK code 3 means: try again.
  reconnectOnConnackError: true,
});
client.on('connect', () => {
  report('connected', { code: 0 });
  client.subscribe(topics.commands, { qos: 1 });
});
client.on('message', (_topic, payload) => onCommand(payload.toString('utf8')));
client.on('error', (error) => {
  report('refused', { code: error.code, message: error.message });
  if (error.code === REFUSED) void renew();
});
setInterval(sendTelemetry, INTERVAL_MS);
