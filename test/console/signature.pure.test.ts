/** The check of a signature in the browser: every receiver's own check must agree with it. */
import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { checkSignature, signedTextOf } from '../../console/signature.ts';

const KEY = '0f'.repeat(32);
const ROUTING_KEY = 'acme.event.execution';
const FIELDS = {
  version: '1.1',
  messageId: '6d4d5ed8-a08d-4814-b7ae-be481b762d26',
  correlationId: 'order-1',
  timestamp: '2026-01-15T10:00:00.000Z',
  source: 'sitewire',
  siteId: '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10',
};
const PAYLOAD = '{"status":"COMPLETED","actualValueKw":5.0,"name":"\\u010d"}';

/** An event as it is delivered; `signed`: the text that is signed, which the test writes out by itself. */
function event({
  payload = PAYLOAD,
  shown = payload,
  key = KEY,
}: {
  payload?: string;
  shown?: string;
  key?: string;
} = {}) {
  const signed = `${Object.values(FIELDS).join('|')}|${ROUTING_KEY}|${payload}`;
  const signature = createHmac('sha256', key).update(signed).digest('hex');
  const members = Object.entries(FIELDS).map(([name, value]) => `"${name}":"${value}"`);
  return { signed, text: `{${members.join(',')},"payload":${shown},"signature":"${signature}"}` };
}

describe('the check of a signature', () => {
  it('finds the signature of an event valid, and shows the text that is signed', async () => {
    const { text, signed } = event();
    expect(await checkSignature(text, ROUTING_KEY, KEY)).toMatchObject({ verdict: 'valid', signed });
  });

  it('signs the text of the payload, whatever its spaces, and not what JavaScript makes of it', async () => {
    const { text } = event({ shown: '{ "status": "COMPLETED",\n "actualValueKw": 5.0, "name": "\\u010d" }' });
    expect(await checkSignature(` ${text}\n`, ROUTING_KEY, KEY)).toMatchObject({ verdict: 'valid' });
    const changed = event({ shown: '{"status":"COMPLETED","actualValueKw":5,"name":"č"}' });
    expect(await checkSignature(changed.text, ROUTING_KEY, KEY)).toMatchObject({ verdict: 'mismatch' });
  });

  it('is of the same text that follows from the record of a command', () => {
    const { version: _version, correlationId, ...fields } = FIELDS;
    const payload = { type: 'STOP', reason: 'drill' };
    const record = { ...fields, routingKey: ROUTING_KEY, payload };
    const { signed } = event({ payload: JSON.stringify(payload) });
    expect(signedTextOf({ ...record, correlationId })).toBe(signed);
    const without = signed.replace(`|${correlationId}|`, '||');
    expect(signedTextOf({ ...record, correlationId: null })).toBe(without);
    expect(signedTextOf({ ...record, source: 'a|b', correlationId })).toBeUndefined();
  });

  it('takes the event out of what a webhook posts', async () => {
    const { text } = event();
    const posted = `{"type":"execution","timestamp":"${FIELDS.timestamp}","data":${text}}`;
    expect(await checkSignature(posted, ROUTING_KEY, KEY)).toMatchObject({ verdict: 'valid' });
  });

  it.each<[string, string, string, string]>([
    ['another key', event({ key: '1e'.repeat(32) }).text, ROUTING_KEY, 'mismatch'],
    ['another routing key', event().text, 'acme.event.alarm', 'mismatch'],
    ['no signature', event().text.replace(/,"signature":"\w+"/, ''), ROUTING_KEY, 'missing'],
    ['a separator in a field', event().text.replace('order-1', 'order|1'), ROUTING_KEY, 'unsignable'],
    ['no payload', event().text.replace('"payload"', '"load"'), ROUTING_KEY, 'unreadable'],
    ['a field that is no text', event().text.replace('"1.1"', '1.1'), ROUTING_KEY, 'unreadable'],
    ['no JSON', 'hello', ROUTING_KEY, 'unreadable'],
    ['a list', '[]', ROUTING_KEY, 'unreadable'],
    ['a name twice', '{"payload":1,"payload":2}', ROUTING_KEY, 'unreadable'],
  ])('says so for %s', async (_name, text, routingKey, verdict) => {
    expect(await checkSignature(text, routingKey, KEY)).toMatchObject({ verdict });
  });
});
