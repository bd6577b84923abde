/** Declaring queues: the event queues exist and cannot be changed [C-6.1], [C-6.3]. */
import { describe, expect, it } from 'vitest';
import { forbidden, refused } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';

const TTL = [{ name: 'x-message-ttl', type: 'signedint', value: 60_000 }];
const QUEUES = ['event.telemetry', 'event.alarm', 'event.status', 'event.execution', 'dead-letter'] as const;

describe('declaring a queue', () => {
  it.each(QUEUES)(
    'succeeds for the name %s without an earlier declaration, passively and with equal arguments [C-6.1]',
    async (name) => {
      const { partner } = await setScene({ partner: 'connected' });
      const queue = partner.queueName(name);
      const empty = { kind: 'ok', messageCount: 0, consumerCount: 0 };
      expect(await partner.declare(queue, { passive: true })).toMatchObject(empty);
      expect(await partner.declare(queue)).toMatchObject(empty);
    },
  );

  it.each(['command', 'schedule', 'config'])(
    'succeeds for the name %s, which the platform reads, and reports its one consumer [C-6.1]',
    async (name) => {
      const { organization, partner } = await setScene({ partner: 'connected' });
      const queue = `vcp.${organization.slug}.${name}`;
      const answer = { kind: 'ok', messageCount: 0, consumerCount: 1 };
      expect(await partner.declare(queue, { passive: true })).toMatchObject(answer);
      expect(await partner.declare(queue)).toMatchObject(answer);
    },
  );

  it('passively succeeds whatever its arguments are, as in RabbitMQ [C-6.3]', async () => {
    const { partner } = await setScene({ partner: 'connected' });
    const other = { durable: false, exclusive: true, autoDelete: true, arguments: TTL };
    const answer = await partner.declare(partner.queueName('event.status'), { passive: true, ...other });
    expect(answer).toMatchObject({ kind: 'ok' });
  });

  it.each([
    ['durable', { durable: false }, 'false', 'true'],
    ['auto_delete', { autoDelete: true }, 'true', 'false'],
  ] as const)(
    "is refused with 406 and RabbitMQ's text for another value of %s [C-6.3]",
    async (name, options, received, current) => {
      const { key, partner } = await setScene({ partner: 'connected' });
      const queue = partner.queueName('event.status');
      expect(await partner.declare(queue, options)).toMatchObject(
        refused(
          406,
          `PRECONDITION_FAILED - inequivalent arg '${name}' for queue '${queue}' in vhost 'partner-${key.id}': received '${received}' but current is '${current}'`,
        ),
      );
    },
  );

  it('is refused with 406 for an argument that event queues do not have, which it names [C-6.3]', async () => {
    const { key, partner } = await setScene({ partner: 'connected' });
    const queue = partner.queueName('event.telemetry');
    const answer = await partner.declare(queue, { arguments: TTL });
    const where = `for queue '${queue}' in vhost 'partner-${key.id}'`;
    expect(answer).toMatchObject(
      refused(
        406,
        `PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' ${where}: received the value '60000' of type 'signedint' but current is none`,
      ),
    );
  });

  it('succeeds with arguments that have no effect, or that all event queues have [C-6.3]', async () => {
    const { partner } = await setScene({ partner: 'connected' });
    const typed = [
      { name: 'x-mine', type: 'longstr', value: 'anything' },
      { name: 'x-queue-type', type: 'longstr', value: 'classic' },
    ];
    const answer = await partner.declare(partner.queueName('event.status'), { arguments: typed });
    expect(answer).toMatchObject({ kind: 'ok' });
  });

  it('as exclusive is refused with 405 for an event queue, because its connections share it [C-6.3]', async () => {
    const { key, partner } = await setScene({ partner: 'connected' });
    const queue = partner.queueName('event.status');
    expect(await partner.declare(queue, { exclusive: true, durable: false })).toMatchObject(
      refused(
        405,
        `RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '${queue}' in vhost 'partner-${key.id}'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.`,
      ),
    );
  });

  it.each([
    ["another organization's name", () => 'vcp.other.event.status'],
    ['a name whose slug begins like its own', (slug: string) => `vcp.${slug}2.event.status`],
    ['a new name under its own slug', (slug: string) => `vcp.${slug}.mine`],
  ])('is refused with 403 for %s, passively too [C-6.2]', async (_, nameOf) => {
    const { organization, partner } = await setScene({ partner: 'connected' });
    const queue = nameOf(organization.slug);
    const refusal = forbidden(partner, `queue '${queue}'`);
    expect(await partner.declare(queue, { passive: true })).toMatchObject(refusal);
    expect(await partner.declare(queue)).toMatchObject(refusal);
  });

  it('passively with a name that is not declared is answered 404 [C-6.3]', async () => {
    const { key, partner } = await setScene({ partner: 'connected' });
    expect(await partner.declare('mine', { passive: true })).toMatchObject(
      refused(404, `NOT_FOUND - no queue 'mine' in vhost 'partner-${key.id}'`),
    );
  });
});
