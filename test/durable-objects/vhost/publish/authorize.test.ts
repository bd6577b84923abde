/** What a key may publish: its own routing keys, to the one exchange, as its scopes allow [C-6.2]. */
import { describe, expect, it } from 'vitest';
import {
  ackOf,
  charge,
  commandLog,
  envelopeFields,
  forbidden,
  type PublishQuestion,
  publishOf,
  setpoint,
  sign,
} from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { FAMILY_RULES } from '../../../../protocol/routing-keys.ts';
import type { ApiKeyScope } from '../../../../protocol/scopes.ts';

const PAYLOADS = {
  'site-setpoint': setpoint(),
  device: charge(),
  emergency: { type: 'STOP' },
  mode: { mode: 'STANDARD' },
  schedule: { startTime: '2030-03-05T09:00:00Z', slots: [{ slotIndex: 0, mode: 'STANDARD' }] },
  config: { constraints: { maxImportKw: 60 } },
} as const;
const FAMILIES = Object.keys(PAYLOADS) as (keyof typeof PAYLOADS)[];

async function partnerWith(scopes?: ApiKeyScope[]) {
  const scene = await setScene({ plant: true, partner: 'connected', key: scopes ? { scopes } : {} });
  const { plant, partner } = scene;
  const command = (family: keyof typeof PAYLOADS) => partner.command(plant.id, family, PAYLOADS[family]);
  return { ...scene, command };
}

function keyFault({ slug }: { slug: string }, routingKey: string): string {
  return routingKey.startsWith(`${slug}.`)
    ? ': no command has this routing key'
    : ': a routing key begins with the user name and a dot';
}

describe('the rule on which routing keys a partner may publish', () => {
  const refused: [string, (slug: string) => string][] = [
    ['a slug that only begins with its own', (slug) => `${slug}2.command.emergency`],
    ['a slug that is a part of its own', (slug) => `${slug.slice(0, -1)}.command.emergency`],
    ['its slug in upper case', (slug) => `${slug.toUpperCase()}.command.emergency`],
    ['its slug with a space in front', (slug) => ` ${slug}.command.emergency`],
    ['only its slug', (slug) => slug],
    ['its slug and a dot', (slug) => `${slug}.`],
    ['an empty routing key', () => ''],
    ['an empty first part', (slug) => `.${slug}.command.emergency`],
    ['an empty second part', (slug) => `${slug}..command.emergency`],
    ['a wildcard for the slug', () => '*.command.emergency'],
    ['a hash for everything', () => '#'],
    ['a wildcard for the family', (slug) => `${slug}.command.*`],
    ['a wildcard after device', (slug) => `${slug}.command.device.*`],
    ['a hash after device', (slug) => `${slug}.command.device.#`],
    ['an empty part after device', (slug) => `${slug}.command.device.`],
    ['two parts after device', (slug) => `${slug}.command.device.a.b`],
    ['a family in another case', (slug) => `${slug}.command.Emergency`],
    ['a part after another family', (slug) => `${slug}.command.emergency.now`],
    ['no family', (slug) => `${slug}.command`],
    ['an unknown family', (slug) => `${slug}.command.reboot`],
    ['a family named __proto__', (slug) => `${slug}.command.__proto__`],
    ['a schedule without an action', (slug) => `${slug}.schedule`],
    ['a wildcard after schedule', (slug) => `${slug}.schedule.*`],
    ['two parts after schedule', (slug) => `${slug}.schedule.set.now`],
    ['a schedule among commands', (slug) => `${slug}.command.schedule`],
    ['its own telemetry events', (slug) => `${slug}.event.telemetry`],
    ['its own acknowledgements', (slug) => `${slug}.event.command.ack`],
  ];

  it.each(refused)(
    'refuses %s with 403 as RabbitMQ does, and closes the channel [C-6.2]',
    async (_, trick) => {
      const { organization, plant, partner, command } = await partnerWith();
      const routingKey = trick(organization.slug);
      expect(await partner.ask({ ...command('emergency'), routingKey })).toMatchObject(
        forbidden(partner, `topic '${routingKey}' in exchange 'vcp'`, keyFault(organization, routingKey)),
      );
      expect((await commandLog(plant.id)).total).toBe(0);
      expect(await partner.readyCount('dead-letter')).toBe(0);
    },
  );

  it.each([
    ['', 'amq.default'],
    ['amq.topic', 'amq.topic'],
    ['amq.direct', 'amq.direct'],
    ['VCP', 'VCP'],
    ['no-such-exchange', 'no-such-exchange'],
  ])('refuses the exchange "%s" with 403, whether it exists or not [C-6.2]', async (exchange, name) => {
    const { partner, command } = await partnerWith();
    expect(await partner.ask({ ...command('emergency'), exchange })).toMatchObject(
      forbidden(partner, `exchange '${name}'`),
    );
  });

  it('accepts a last part after `device` as the device family, with its signature over the full key [C-6.2]', async () => {
    const { organization, plant, key, partner } = await partnerWith();
    const routingKey = `${organization.slug}.command.device.BESS-1`;
    await partner.consume('event.status');
    const payload = charge();
    const signedOver = (signed: string) => {
      const fields = envelopeFields(plant.id);
      const signature = sign(key.signingKey, fields, signed, JSON.stringify(payload));
      return publishOf(routingKey, JSON.stringify({ ...fields, payload, signature }));
    };
    const unsigned = partner.command(plant.id, 'device', payload, { signingKey: null });
    expect(await ackOf(partner, { ...unsigned, routingKey })).toMatchObject({ message: 'signature missing' });
    const short = await ackOf(partner, signedOver(partner.routingKey('device')));
    expect(short).toMatchObject({ status: 'REJECTED', message: expect.stringContaining('signature') });
    expect(await ackOf(partner, signedOver(routingKey))).toMatchObject({ status: 'QUEUED' });
    const [row] = (await commandLog(plant.id)).items;
    expect(row).toMatchObject({ routingKey, commandType: 'DEVICE_COMMAND' });
  });

  it('accepts an unsigned schedule, which the site then rejects and logs [C-7.2]', async () => {
    const { plant, partner } = await partnerWith();
    await partner.consume('event.status');
    const unsigned = partner.command(plant.id, 'schedule', PAYLOADS.schedule, { signingKey: null });
    expect(await ackOf(partner, unsigned)).toMatchObject({ message: 'signature missing' });
    const [row] = (await commandLog(plant.id)).items;
    expect(row).toMatchObject({ commandType: 'SCHEDULE', status: 'REJECTED' });
  });

  it('decides on each publish of a batch of frames separately: a refused one does not affect the others', async () => {
    const { organization, partner, command } = await partnerWith();
    const stranger = `${organization.slug}2.command.mode`;
    const questions: PublishQuestion[] = [
      command('mode'),
      { ...command('mode'), routingKey: stranger },
      { ...command('mode'), body: 'not JSON' },
      command('emergency'),
    ];
    const answers = await partner.askAll(...questions);
    expect(answers.map(({ kind }) => kind)).toEqual(['stored', 'refused', 'stored', 'stored']);
  });
});

describe('the rule on which scopes allow which routing keys', () => {
  const rights = FAMILIES.flatMap((family): [typeof family, ApiKeyScope][] => {
    const { scope } = FAMILY_RULES[family];
    return scope ? [[family, scope]] : [];
  });

  it.each(rights)(
    'accepts %s and emergencies of a key with only %s, and refuses all other families [C-6.2]',
    async (family, scope) => {
      const { partner, command } = await partnerWith(['vcp:connect', scope]);
      for (const other of FAMILIES) {
        const isOpen = other === family || other === 'emergency';
        const answer = await partner.ask(command(other));
        expect([other, answer.kind]).toEqual([other, isOpen ? 'stored' : 'refused']);
      }
    },
  );

  it('refuses a publish whose scope is missing with 403, and names its routing key [C-6.2]', async () => {
    const { organization, partner, command } = await partnerWith(['vcp:connect', 'vcp:write:mode']);
    expect(await partner.ask(command('site-setpoint'))).toMatchObject(
      forbidden(
        partner,
        `topic '${organization.slug}.command.site-setpoint' in exchange 'vcp'`,
        ': the API key lacks the scope vcp:write:setpoint',
      ),
    );
  });

  it('refuses every publish of a consume-only key, emergencies too [C-5.3]', async () => {
    const { partner, command } = await partnerWith(['vcp:connect', 'vcp:read', 'commands:execute']);
    const answers = await partner.askAll(...FAMILIES.map(command));
    expect(answers.map(({ kind }) => kind)).toEqual(FAMILIES.map(() => 'refused'));
  });

  it.each(['vcp:connect', 'trading:connect'] as const)(
    'accepts every publish of a key with only %s [C-5.3]',
    async (scope) => {
      const { partner, command } = await partnerWith([scope]);
      const answers = await partner.askAll(...FAMILIES.map(command));
      expect(answers.map(({ kind }) => kind)).toEqual(FAMILIES.map(() => 'stored'));
    },
  );
});
