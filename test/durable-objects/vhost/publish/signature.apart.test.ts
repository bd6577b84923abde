/**
 * Signatures: of publishes, as their family and organization require them, and of outgoing events [C-7.2].
 */
import { describe, expect, it, vi } from 'vitest';
import { connectListener } from '#workerd/links.ts';
import {
  ackOf,
  charge,
  commandLog,
  envelopeFields,
  eventOf,
  Partner,
  publishOf,
  setpoint,
  sign,
} from '#workerd/partner.ts';
import { changeAndNotifyVhost, changeSettings } from '#workerd/registry-changes.ts';
import { failRegistry } from '#workerd/registry-reads.ts';
import { setScene } from '#workerd/scene.ts';
import { createKey, createOrganization, createPlant, vhostOf } from '#workerd/world.ts';
import { hmacHex } from '../../../../durable-objects/secrets/hmac.ts';
import { sliceMembers } from '../../../../protocol/compact-json.ts';
import type { Delivery } from '../../../../protocol/link/vhost.ts';
import { envelopeSigningString } from '../../../../protocol/signing.ts';

/** A partner that reads its acknowledgements. */
async function openReader(settings: Record<string, unknown> = {}) {
  return await setScene({ settings, plant: true, consumes: 'event.status' });
}

function rejectedAs(message: string) {
  return { status: 'REJECTED', rejectionCode: 'INVALID_PAYLOAD', message };
}

const MISMATCH = rejectedAs('signature mismatch');
/** Signs with a key that is not the partner's. */
const FORGED = { signingKey: '00'.repeat(32) };
const UNSIGNED = { signingKey: null };

/** Checks the signature of an event as a partner does: over the slices as received. */
function verifies(delivery: Delivery, signingKey: string): boolean {
  const event = eventOf(delivery);
  const members = sliceMembers(delivery.body);
  const payloadText = members.ok ? (members.value.get('payload') ?? '') : '';
  const text = envelopeSigningString(event, delivery.routingKey, payloadText) ?? '';
  return event.signature === hmacHex(signingKey, text);
}

describe('the signature of a publish', () => {
  it.each([
    ['device', charge()],
    ['mode', { mode: 'STANDARD' }],
  ] as const)(
    'is required for %s: an unsigned one is rejected, logged and not dispatched [C-7.2]',
    async (family, payload) => {
      const { plant, partner } = await openReader();
      const device = await connectListener(plant);
      const unsigned = partner.command(plant.id, family, payload, UNSIGNED);
      expect(await ackOf(partner, unsigned)).toMatchObject(rejectedAs('signature missing'));
      expect((await commandLog(plant.id)).items).toMatchObject([
        { status: 'REJECTED', rejectionCode: 'INVALID_PAYLOAD', message: 'signature missing' },
      ]);
      expect(device.received.filter(({ kind }) => kind === 'command')).toEqual([]);
    },
  );

  it.each([
    ['site-setpoint', setpoint()],
    ['emergency', { type: 'HOLD' }],
  ] as const)('is optional for %s, but checked when present [C-7.2]', async (family, payload) => {
    const { plant, partner } = await openReader();
    const unsigned = partner.command(plant.id, family, payload, UNSIGNED);
    expect(await ackOf(partner, unsigned)).toMatchObject({ status: 'QUEUED' });
    const forged = partner.command(plant.id, family, payload, FORGED);
    expect(await ackOf(partner, forged)).toMatchObject(MISMATCH);
  });

  const spoiled: [string, (whole: Record<string, unknown>) => Record<string, unknown>][] = [
    ['in upper case', (whole) => ({ ...whole, signature: String(whole.signature).toUpperCase() })],
    ['truncated', (whole) => ({ ...whole, signature: String(whole.signature).slice(0, 63) })],
    ['that is empty', (whole) => ({ ...whole, signature: '' })],
    ['that is a number', (whole) => ({ ...whole, signature: 7 })],
    ['that is an object', (whole) => ({ ...whole, signature: {} })],
    ['over another messageId', (whole) => ({ ...whole, messageId: crypto.randomUUID() })],
    ['over another correlationId', (whole) => ({ ...whole, correlationId: 'other' })],
    ['over another source', (whole) => ({ ...whole, source: 'other' })],
    ['over another timestamp', (whole) => ({ ...whole, timestamp: new Date(Date.now() + 1).toISOString() })],
    ['over another payload', (whole) => ({ ...whole, payload: charge(6) })],
  ];

  it.each(spoiled)('%s is a mismatch and nothing is dispatched [C-7.2]', async (_, spoil) => {
    const { plant, partner } = await openReader();
    const device = await connectListener(plant);
    const question = partner.command(plant.id, 'device', charge());
    const body = JSON.stringify(spoil(JSON.parse(question.body)));
    expect(await ackOf(partner, { ...question, body })).toMatchObject(MISMATCH);
    expect((await commandLog(plant.id)).items).toMatchObject([{ status: 'REJECTED' }]);
    expect(device.received.filter(({ kind }) => kind === 'command')).toEqual([]);
  });

  it('is a mismatch after the siteId or the routing key of its publish was changed [C-7.2]', async () => {
    const organization = await createOrganization();
    const [plant, other] = [await createPlant(organization), await createPlant(organization)];
    const partner = await Partner.connect(organization, await createKey(organization));
    await partner.consume('event.status');
    const signed = partner.command(plant.id, 'device', charge());
    await ackOf(partner, signed);
    const moved = signed.body.replace(plant.id, other.id);
    expect(await ackOf(partner, { ...signed, body: moved })).toMatchObject(MISMATCH);
    const routingKey = `${signed.routingKey}.BESS-1`;
    expect(await ackOf(partner, { ...signed, routingKey })).toMatchObject(MISMATCH);
  });

  it('made with the signing key of another API key of the same organization is a mismatch [C-7.2]', async () => {
    const { organization, plant, partner } = await openReader();
    const { signingKey } = await createKey(organization);
    const question = partner.command(plant.id, 'device', charge(), { signingKey });
    expect(await ackOf(partner, question)).toMatchObject(MISMATCH);
  });

  it('is a mismatch when a signed field contains the separator | [C-7.2]', async () => {
    const { plant, partner } = await openReader();
    const question = partner.command(plant.id, 'device', charge(), { correlationId: 'a|b' });
    expect(await ackOf(partner, question)).toMatchObject(MISMATCH);
  });

  it('is checked over the payload as it was sent, without whitespace [C-3.7]', async () => {
    const { plant, key, partner } = await openReader();
    const payloadText = `{ "commands" : [ {"deviceId": "BESS-1", "assetType": "BESS",
      "command": "BESS_CHARGE", "params": {"powerKw": 5.0e0}} ] }`;
    const fields = envelopeFields(plant.id);
    const routingKey = partner.routingKey('device');
    const signature = sign(key.signingKey, fields, routingKey, payloadText);
    const body = `${JSON.stringify({ signature, ...fields }).slice(0, -1)}, "payload": ${payloadText} }`;
    expect(await ackOf(partner, publishOf(routingKey, body))).toMatchObject({ status: 'QUEUED' });
  });

  it.each([
    [-300_000, 'QUEUED'],
    [-300_001, 'REJECTED'],
    [300_000, 'QUEUED'],
    [300_001, 'REJECTED'],
  ])('makes, with a timestamp %d ms from the clock, the command %s [C-7.2]', async (offsetMs, status) => {
    vi.setSystemTime(Date.now());
    const { plant, key, partner } = await openReader();
    const timestamp = new Date(Date.now() + offsetMs).toISOString();
    const fields = { ...envelopeFields(plant.id), timestamp };
    const routingKey = partner.routingKey('device');
    const signature = sign(key.signingKey, fields, routingKey, JSON.stringify(charge()));
    const body = JSON.stringify({ ...fields, payload: charge(), signature });
    const payload = await ackOf(partner, publishOf(routingKey, body));
    expect(payload.status).toBe(status);
    if (status === 'REJECTED')
      expect(payload.message).toContain('signature timestamp outside tolerance; timestamp ');
  });
});

describe('an organization that requires signed commands', () => {
  it.each([
    ['site-setpoint', setpoint()],
    ['emergency', { type: 'HOLD' }],
  ] as const)(
    'has %s rejected without a signature and accepted with one [C-7.2]',
    async (family, payload) => {
      const { plant, key, partner } = await openReader({ requireSignedCommands: true });
      await ackOf(partner, partner.command(plant.id, 'device', charge()));
      const unsigned = partner.command(plant.id, family, payload, UNSIGNED);
      expect(await ackOf(partner, unsigned)).toMatchObject(rejectedAs('signature missing'));
      const signed = partner.command(plant.id, family, payload, { signingKey: key.signingKey });
      expect(await ackOf(partner, signed)).toMatchObject({ status: 'QUEUED' });
    },
  );

  it('has its setting applied to the first publish of a key even if D1 could not be read at its connect [C-7.2]', async () => {
    const organization = await createOrganization({ requireSignedCommands: true });
    const plant = await createPlant(organization);
    const key = await createKey(organization);
    // The registry is unavailable for a moment: the read at connect fails, so the publish reads it.
    const reads = failRegistry();
    const partner = await Partner.connect(organization, key);
    await partner.consume('event.status');
    expect(reads.count).toBeGreaterThan(0);
    vi.restoreAllMocks();
    vi.setSystemTime(Date.now() + 2_000);
    const unsigned = partner.command(plant.id, 'site-setpoint', setpoint(), UNSIGNED);
    expect(await ackOf(partner, unsigned)).toMatchObject(rejectedAs('signature missing'));
  });

  it('has a changed setting applied on an open connection as soon as the vhost of its key is notified [C-7.2]', async () => {
    const { organization, plant, key, partner } = await openReader();
    const unsigned = () => partner.command(plant.id, 'site-setpoint', setpoint(), UNSIGNED);
    expect(await ackOf(partner, unsigned())).toMatchObject({ status: 'QUEUED' });
    const settings = changeSettings({ requireSignedCommands: true });
    await changeAndNotifyVhost(organization, key.id, settings);
    expect(await ackOf(partner, unsigned())).toMatchObject(rejectedAs('signature missing'));
  });
});

describe('an organization with signatureHints', () => {
  const HINT = /^signature mismatch; signed over: (.*)$/s;

  it('gets the text that should have been signed: the same publish is accepted with a signature over it [C-7.2]', async () => {
    const { plant, key, partner } = await openReader({ signatureHints: true });
    const forged = partner.command(plant.id, 'device', charge(), FORGED);
    const payload = await ackOf(partner, forged);
    expect(payload).toMatchObject(rejectedAs(expect.stringMatching(HINT)));
    expect((await commandLog(plant.id)).items).toMatchObject([
      { status: 'REJECTED', message: payload.message, decision: { stage: 'signature' } },
    ]);
    const [, text = ''] = HINT.exec(String(payload.message)) ?? [];
    const body = { ...JSON.parse(forged.body), signature: hmacHex(key.signingKey, text) };
    expect(await ackOf(partner, publishOf(forged.routingKey, JSON.stringify(body)))).toMatchObject({
      status: 'QUEUED',
    });
  });

  it('gets no hint without a signature, and a truncated text for a long message [C-7.2]', async () => {
    const { plant, partner } = await openReader({ signatureHints: true });
    const unsigned = partner.command(plant.id, 'mode', { mode: 'STANDARD' }, UNSIGNED);
    expect(await ackOf(partner, unsigned)).toMatchObject(rejectedAs('signature missing'));
    const long = { mode: 'STANDARD', reason: 'x'.repeat(200_000) };
    const forged = partner.command(plant.id, 'mode', long, FORGED);
    const { message } = await ackOf(partner, forged);
    expect(message).toMatch(/x… \(200\d\d\d characters\)$/);
    expect(String(message).length).toBeLessThan(2_200);
  });

  it('gets hints as soon as the vhost is notified of the setting, and none after it is switched off [C-1.1]', async () => {
    const { organization, plant, key, partner } = await openReader();
    const forged = () => partner.command(plant.id, 'device', charge(), FORGED);
    expect(await ackOf(partner, forged())).toMatchObject(MISMATCH);
    await changeAndNotifyVhost(organization, key.id, changeSettings({ signatureHints: true }));
    expect(await ackOf(partner, forged())).toMatchObject(rejectedAs(expect.stringMatching(HINT)));
    await changeAndNotifyVhost(organization, key.id, changeSettings({ signatureHints: false }));
    expect(await ackOf(partner, forged())).toMatchObject(MISMATCH);
  });
});

describe('the signature of an event', () => {
  it('is made with the signing key of the receiving key, over the event as it is sent [C-7.2]', async () => {
    const { organization, plant, key, partner } = await openReader();
    await ackOf(partner, partner.command(plant.id, 'device', charge(), { correlationId: 'objednávka č. 7' }));
    await ackOf(partner, partner.command(crypto.randomUUID(), 'device', charge(), { correlationId: null }));
    await ackOf(partner, partner.command(plant.id, 'site-setpoint', { ...setpoint(), targetValueKw: 1_000 }));
    await partner.consume('event.alarm');
    await partner.delivered(1, 'event.alarm');
    const deliveries = partner.deliveries();
    expect(deliveries).toHaveLength(4);
    for (const delivery of deliveries) expect(verifies(delivery, key.signingKey)).toBe(true);
    const { signingKey } = await createKey(organization);
    for (const delivery of deliveries) expect(verifies(delivery, signingKey)).toBe(false);
  });

  it('covers telemetry, which has no correlationId [C-7.2]', async () => {
    const { plant, key, partner } = await openReader();
    await partner.consume('event.telemetry');
    const event = { kind: 'telemetry', correlationId: null, atMs: Date.now() } as const;
    const messageId = crypto.randomUUID();
    await vhostOf(key.id).receivePassing(plant.id, [
      { ...event, messageId, payloadText: '{"gridPowerKw":1.5,"filler":""}' },
    ]);
    const [delivery] = await partner.delivered(1, 'event.telemetry');
    expect(delivery && verifies(delivery, key.signingKey)).toBe(true);
    expect(delivery && 'correlationId' in eventOf(delivery)).toBe(false);
  });
});
