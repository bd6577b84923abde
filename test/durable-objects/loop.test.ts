/** The main loop inside workerd: a signed battery command through a Vhost, a Site and back [C-7.8]. */
import { describe, expect, it } from 'vitest';
import { ackMessage, connectPartner, publishFrame } from '#workerd/links.ts';
import { setScene } from '#workerd/scene.ts';

describe('the main loop inside workerd', () => {
  it('takes a signed battery command from publish to COMPLETED [C-7.8]', async () => {
    const { organization, plant, key, link: device } = await setScene({ key: true, gateway: 'connected' });
    device.send({ kind: 'subscribed', commands: true });
    const partner = await connectPartner(key);
    for (const [seq, queue] of ['event.status', 'event.execution'].entries()) {
      const name = `vcp.${organization.slug}.${queue}`;
      partner.send({
        kind: 'consume',
        seq: seq + 1,
        channel: 1,
        tag: queue,
        queue: name,
        noAck: false,
        exclusive: false,
        prefetch: 0,
        priority: 0,
      });
    }

    const commands = [
      { deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw: 5 } },
    ];
    partner.send(
      publishFrame(organization, key, plant.id, 'device', { commands }, { seq: 9, correlationId: 'corr-1' }),
    );
    await partner.next((frame) => frame.kind === 'stored' && frame.seqs.includes(9));
    const ack = await partner.next((frame) => frame.kind === 'deliver' && frame.tag === 'event.status');
    expect(ack).toMatchObject({ delivery: { redelivered: false } });
    expect(JSON.parse(ack.kind === 'deliver' ? ack.delivery.body : '')).toMatchObject({
      correlationId: 'corr-1',
      payload: { status: 'ACCEPTED', commandType: 'DEVICE_COMMAND' },
    });

    const command = await device.next((frame) => frame.kind === 'command');
    const { cmdId, action } = JSON.parse(command.kind === 'command' ? command.payload : '{}');
    expect(action).toBe('BESS_CHARGE');
    device.send(
      { kind: 'publish', seq: 1, topic: 'ack', payload: ackMessage(plant.gateway, cmdId, 'RECEIVED') },
      { kind: 'publish', seq: 2, topic: 'ack', payload: ackMessage(plant.gateway, cmdId, 'COMPLETED') },
    );
    await partner.next(
      (frame) =>
        frame.kind === 'deliver' &&
        frame.tag === 'event.execution' &&
        frame.delivery.body.includes('COMPLETED'),
    );
    const executions = partner.received.flatMap((frame) =>
      frame.kind === 'deliver' && frame.tag === 'event.execution'
        ? [JSON.parse(frame.delivery.body).payload.status]
        : [],
    );
    expect(executions).toEqual(['EXECUTING', 'COMPLETED']);
  });
});
