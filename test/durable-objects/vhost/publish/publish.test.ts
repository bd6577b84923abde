/** The envelope of a publish: dead-lettered when malformed, acknowledged when it can be read [C-7.1]. */
import { evictDurableObject } from 'cloudflare:test';
import { describe, expect, it } from 'vitest';
import {
  ackOf,
  charge,
  commandLog,
  envelopeFields,
  eventOf,
  eventOfAck,
  publishOf,
  setpoint,
} from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { vhostOf } from '#workerd/world.ts';

type Fields = Record<string, unknown>;

/** The envelope with some fields changed; undefined leaves one out. */
function changed(fields: Fields): (whole: Fields) => string {
  return (whole) => JSON.stringify({ ...whole, ...fields });
}

describe('a malformed envelope', () => {
  const malformed: [string, (whole: Fields) => string, string][] = [
    ['that is not JSON', () => 'hello', 'not JSON'],
    ['that is empty', () => '', 'not JSON'],
    ['that is truncated', (whole) => JSON.stringify(whole).slice(0, -1), 'not JSON'],
    ['that contains NaN', (whole) => JSON.stringify(whole).replace(/:10,/, ':NaN,'), 'not JSON'],
    ['that is a list', () => '[]', 'not a JSON object'],
    ['that is null', () => 'null', 'not a JSON object'],
    ['without a version', changed({ version: undefined }), 'version: '],
    ['of another major version', changed({ version: '2.0' }), 'version: '],
    ['with a number for a version', changed({ version: 1.1 }), 'version: '],
    ['without a messageId', changed({ messageId: undefined }), 'messageId: '],
    ['whose messageId is not a UUID', changed({ messageId: '1' }), 'messageId: '],
    ['whose correlationId is a number', changed({ correlationId: 1 }), 'correlationId: '],
    ['without a timestamp', changed({ timestamp: undefined }), 'timestamp: '],
    ['dated on a day that does not exist', changed({ timestamp: '2024-02-30T00:00:00Z' }), 'timestamp: '],
    ['without a time zone', changed({ timestamp: '2024-02-03T00:00:00' }), 'timestamp: '],
    ['without a source', changed({ source: undefined }), 'source: '],
    ['whose source has a line break', changed({ source: 'a\nb' }), 'source: '],
    ['whose source turns the text around it', changed({ source: 'a\u202eb' }), 'source: '],
    ['whose correlationId has NUL', changed({ correlationId: 'a\u0000b' }), 'correlationId: '],
    ['whose correlationId has an escape', changed({ correlationId: '\u001b[2J' }), 'correlationId: '],
    ['whose correlationId has a lone surrogate', changed({ correlationId: 'a\ud800' }), 'correlationId: '],
    ['whose correlationId turns text', changed({ correlationId: '\u2066a' }), 'correlationId: '],
    ['without a siteId', changed({ siteId: undefined }), 'siteId: '],
    ['with an empty siteId', changed({ siteId: '' }), 'siteId: '],
    ['without a payload', changed({ payload: undefined }), 'payload: '],
    ['whose payload is a list', changed({ payload: [] }), 'payload: '],
    [
      'that contains a field twice',
      (whole) => JSON.stringify(whole).replace('{', '{"siteId":"x",'),
      'repeated key',
    ],
    [
      'that spells a field with escapes',
      (whole) => JSON.stringify(whole).replace('siteId', '\\u0073iteId'),
      'escaped',
    ],
  ];

  it.each(malformed)(
    '%s is dead-lettered with the reason, confirmed, and never acknowledged by an event [C-7.1]',
    async (_, spoil, reason) => {
      const { plant, partner } = await setScene({ plant: true, consumes: 'event.status' });
      await partner.consume('dead-letter');
      const routingKey = partner.routingKey('site-setpoint');
      const body = spoil({ ...envelopeFields(plant.id), payload: setpoint(10) });
      const properties = btoa('\u0010\u0000\u0004some');
      expect(await partner.ask(publishOf(routingKey, body, { properties }))).toMatchObject({
        kind: 'stored',
      });
      const [dead] = await partner.delivered(1, 'dead-letter');
      expect(dead).toMatchObject({
        routingKey,
        body,
        encoding: 'utf8',
        redelivered: false,
        properties: {
          raw: properties,
          headers: { 'x-death-reason': expect.stringContaining(reason), 'x-death-routing-key': routingKey },
        },
      });
      await partner.quiet();
      expect(partner.deliveries('event.status')).toEqual([]);
      expect((await commandLog(plant.id)).total).toBe(0);
    },
  );

  it.each([
    ['a space', (slug: string) => `${slug}.command.device.a b`],
    ['a quote', (slug: string) => `${slug}.command.device.';touch x;'`],
    ['a line break', (slug: string) => `${slug}.schedule.set\n`],
    ['an escape', (slug: string) => `${slug}.config.\u001b[2J`],
    ['a letter outside ASCII', (slug: string) => `${slug}.command.device.č`],
    ['a text direction', (slug: string) => `${slug}.command.device.\u202ea`],
    ['bytes that are not UTF-8', (slug: string) => `${slug}.command.device.\ufffd`],
    ['128 bytes', (slug: string) => `${slug}.command.device.`.padEnd(128, 'x')],
  ])(
    'whose routing key has %s is dead-lettered with the reason, whatever its body [C-15.2]',
    async (_, keyOf) => {
      const { plant, partner, organization } = await setScene({ plant: true, consumes: 'event.status' });
      await partner.consume('dead-letter');
      const routingKey = keyOf(organization.slug);
      const { body } = partner.command(plant.id, 'device', charge());
      expect(await partner.ask(publishOf(routingKey, body))).toMatchObject({ kind: 'stored' });
      expect(await partner.delivered(1, 'dead-letter')).toMatchObject([
        {
          routingKey,
          body,
          properties: { headers: { 'x-death-reason': expect.stringMatching(/routing key/) } },
        },
      ]);
      await partner.quiet();
      expect(partner.deliveries('event.status')).toEqual([]);
      expect((await commandLog(plant.id)).total).toBe(0);
    },
  );

  it('is dead-lettered with its bytes intact if it is not UTF-8 [C-7.1]', async () => {
    const { partner } = await setScene({ plant: true, consumes: 'dead-letter' });
    const body = btoa('{"version":"1.1","source":"\xff\xfe\x00"}');
    const question = publishOf(partner.routingKey('emergency'), body, { encoding: 'base64' });
    expect(await partner.ask(question)).toMatchObject({ kind: 'stored' });
    expect(await partner.delivered(1)).toMatchObject([
      { body, encoding: 'base64', properties: { headers: { 'x-death-reason': 'not UTF-8' } } },
    ]);
  });

  it('is dead-lettered if the bridge marks it as bytes, although its bytes are a valid envelope [C-7.1]', async () => {
    const { plant, partner } = await setScene({ plant: true, partner: 'connected' });
    const whole = partner.command(plant.id, 'emergency', { type: 'STOP' });
    await partner.ask({ ...whole, body: btoa(whole.body), encoding: 'base64' });
    expect(await partner.readyCount('dead-letter')).toBe(1);
    expect((await commandLog(plant.id)).total).toBe(0);
  });

  it('is stored before it is confirmed: a sleep after the confirm does not lose the dead letter [C-6.4]', async () => {
    const { key, partner } = await setScene({ plant: true, partner: 'connected' });
    await partner.ask(publishOf(partner.routingKey('mode'), 'first'));
    await partner.ask(publishOf(partner.routingKey('mode'), 'second'));
    await evictDurableObject(vhostOf(key.id));
    await partner.consume('dead-letter');
    const dead = await partner.delivered(2);
    expect(dead.map(({ body }) => body)).toEqual(['first', 'second']);
  });

  it('is dead-lettered whole at the largest size that AMQP accepts [C-6.3]', async () => {
    const { partner } = await setScene({ plant: true, partner: 'connected' });
    const body = 'x'.repeat(256 * 1024);
    expect(await partner.ask(publishOf(partner.routingKey('mode'), body))).toMatchObject({ kind: 'stored' });
    expect((await partner.get('dead-letter')).delivery?.body).toBe(body);
  });
});

describe('an envelope that can be read', () => {
  it.each(['1.0', '1.1', '1.9999'])(
    'is accepted with version %s and an unknown field [C-7.1]',
    async (version) => {
      const { plant, partner } = await setScene({ plant: true, consumes: 'event.status' });
      const whole = { ...envelopeFields(plant.id), version, traceparent: '00-1', payload: setpoint() };
      const question = publishOf(partner.routingKey('site-setpoint'), JSON.stringify(whole));
      expect(await ackOf(partner, question)).toMatchObject({
        status: 'QUEUED',
        commandType: 'SITE_SETPOINT',
      });
    },
  );

  it('is rejected and logged with an invalid payload, not dead-lettered [C-7.1]', async () => {
    const { plant, partner } = await setScene({ plant: true, consumes: 'event.status' });
    const invalid = partner.command(plant.id, 'site-setpoint', { ...setpoint(), targetValueKw: 1e308 });
    const payload = { status: 'REJECTED', rejectionCode: 'INVALID_PAYLOAD' };
    expect(await ackOf(partner, invalid)).toMatchObject(payload);
    expect((await commandLog(plant.id)).items).toMatchObject([{ status: 'REJECTED' }]);
    expect(await partner.readyCount('dead-letter')).toBe(0);
  });

  it('has its correlationId echoed, in the event and in its properties [C-8.1]', async () => {
    const { plant, partner } = await setScene({ plant: true, consumes: 'event.status' });
    const correlationId = 'order 66/č';
    const question = partner.command(plant.id, 'site-setpoint', setpoint(), { correlationId });
    const event = { correlationId, siteId: plant.id, source: 'sitewire' };
    expect(await eventOfAck(partner, question)).toMatchObject(event);
    expect(partner.deliveries()).toMatchObject([{ properties: { correlationId } }]);
  });

  it('has its messageId echoed if it has no correlationId [C-8.1]', async () => {
    const { plant, partner } = await setScene({ plant: true, consumes: 'event.status' });
    const messageId = crypto.randomUUID();
    const question = partner.command(plant.id, 'device', {}, { messageId, correlationId: null });
    expect((await eventOfAck(partner, question)).correlationId).toBe(messageId);
  });

  it('is answered under the acknowledgement routing key with the properties of an event [C-8.1]', async () => {
    const { organization, plant, partner } = await setScene({ plant: true, consumes: 'event.status' });
    await partner.ask(partner.command(plant.id, 'site-setpoint', setpoint()));
    const [ack] = await partner.delivered(1);
    const event = ack && eventOf(ack);
    expect(ack).toMatchObject({
      routingKey: `${organization.slug}.event.command.ack`,
      redelivered: false,
      encoding: 'utf8',
      properties: { contentType: 'application/json', messageId: event?.messageId },
    });
    expect(ack?.properties.timestampMs).toBe(Date.parse(event?.timestamp ?? ''));
    expect(event?.version).toBe('1.1');
  });
});
