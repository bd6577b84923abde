/** The main loop over TLS with amqplib and mqtt: a signed battery command from its publish to COMPLETED [C-7.8]. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually, TestStack } from '#support/stack.ts';
import type { Gateway } from '../../tools/simulator/gateway.ts';

describe('the main loop with amqplib and mqtt over TLS', () => {
  let stack: TestStack;
  let gateway: Gateway;

  beforeAll(async () => {
    stack = await TestStack.start();
    gateway = await stack.gateway();
    await eventually(() => gateway.connected || undefined);
  });
  afterAll(async () => {
    await gateway.stop();
    await stack.stop();
  });

  it('acknowledges, executes and completes a signed battery command [C-7.8]', async () => {
    const partner = await stack.partner();
    await partner.consume('event.status');
    await partner.consume('event.execution');
    const { correlationId } = await partner.publish('device', stack.credentials.plantId, {
      commands: [{ deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw: 5 } }],
    });
    const ack = await partner.waitFor(
      (event) => event.queue === 'event.status' && event.correlationId === correlationId,
    );
    expect(ack.payload).toMatchObject({ status: 'ACCEPTED', commandType: 'DEVICE_COMMAND' });
    await partner.waitFor(
      (event) => event.correlationId === correlationId && event.payload.status === 'COMPLETED',
    );
    const statuses = partner.events
      .filter((event) => event.queue === 'event.execution')
      .map((event) => event.payload.status);
    expect(statuses).toEqual(['EXECUTING', 'COMPLETED']);
    await partner.close();
  });
});
