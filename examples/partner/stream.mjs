#!/usr/bin/env node
/**
 * Follows the events of a key over HTTPS in Node.js, without a library.
 *
 * To try it, run `npm start` in another terminal, then in the project's folder:
 *
 *     node examples/partner/stream.mjs
 *
 * It prints each event after it has verified its signature. If the connection ends, it goes on after the last
 * event, so it misses none. A number as argument ends it after so many events.
 *
 * For another deployment set SITEWIRE_URL (such as https://api.example.com), SITEWIRE_KEY, SITEWIRE_SIGNING_KEY
 * and SITEWIRE_SLUG (of your organization). To go on after a restart, keep the id of the last event and pass it
 * as SITEWIRE_AFTER.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** The server ends a stream after 15 minutes, and sends a comment every 15 s: longer silence is a lost connection. */
const SILENCE_MS = 40_000;

function settings({ SITEWIRE_URL: url, ...env } = process.env) {
  if (url) {
    const { SITEWIRE_KEY: key, SITEWIRE_SIGNING_KEY: signingKey, SITEWIRE_SLUG: slug } = env;
    return { url, key, signingKey, slug };
  }
  const file = join(env.SITEWIRE_DATA_DIR ?? '.dev', 'stack.json');
  if (!existsSync(file)) {
    console.error('no stack is running here: start one with `npm start`, or set SITEWIRE_URL');
    process.exit(1);
  }
  const { baseUrl, apiKey, organization } = JSON.parse(readFileSync(file, 'utf8'));
  return { url: baseUrl, key: apiKey.key, signingKey: apiKey.signingKey, slug: organization.slug };
}

const { url, key, signingKey, slug } = settings();
/** The id of the last event: the stream continues after it. */
let last = process.env.SITEWIRE_AFTER ?? '0';
let left = Number(process.argv[2] ?? Number.POSITIVE_INFINITY);
let retryMs = 2_000;

/** The signature covers the fields, the routing key and the payload exactly as they are in the text. */
function isGenuine(type, text, event) {
  const routingKey = `${slug}.event.${type === 'ack' ? 'command.ack' : type}`;
  const payload = text.slice(text.indexOf('"payload":') + 10, text.lastIndexOf(',"signature":'));
  const { version, messageId, correlationId, timestamp, source, siteId } = event;
  const fields = [version, messageId, correlationId ?? '', timestamp, source, siteId, routingKey, payload];
  const expected = createHmac('sha256', signingKey).update(fields.join('|')).digest();
  const given = Buffer.from(event.signature ?? '', 'hex');
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function onEvent({ id, event: type, data }) {
  if (type === 'gap') console.log('events were deleted before this program read them:', data);
  else if (type) {
    const event = JSON.parse(data);
    // Only the events of an unsigned command whose correlationId contains | have no signature.
    const isSigned = event.signature !== undefined;
    if (isSigned && !isGenuine(type, data, event)) throw new Error(`event ${id} has a wrong signature`);
    console.log(
      isSigned ? id : `${id} (not signed)`,
      event.timestamp,
      type,
      JSON.stringify(event.payload).slice(0, 120),
    );
    left -= 1;
  }
  if (id) last = id;
}

/** Reads one stream until it ends. */
async function follow() {
  const lost = new AbortController();
  let alarm = setTimeout(() => lost.abort(), SILENCE_MS);
  try {
    const headers = { 'x-api-key': key, 'last-event-id': last };
    const answer = await fetch(`${url}/api/v1/vcp/events/stream`, { headers, signal: lost.signal });
    if (answer.status === 400 || answer.status === 401 || answer.status === 403) {
      console.error(`the stream was refused: ${await answer.text()}`);
      process.exit(1);
    }
    if (!answer.ok) return;
    let text = '';
    for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
      clearTimeout(alarm);
      alarm = setTimeout(() => lost.abort(), SILENCE_MS);
      const blocks = `${text}${part}`.split('\n\n');
      text = blocks.pop();
      for (const block of blocks) {
        const fields = Object.fromEntries(block.split('\n').map((line) => line.split(/: (.*)/s, 2)));
        if (fields.retry) retryMs = Number(fields.retry);
        onEvent(fields);
        if (left <= 0) process.exit(0);
      }
    }
  } catch (error) {
    if (error.message?.includes('signature')) throw error;
    // The connection was lost: the next one goes on.
  } finally {
    clearTimeout(alarm);
  }
}

for (;;) {
  await follow();
  await sleep(retryMs);
}
