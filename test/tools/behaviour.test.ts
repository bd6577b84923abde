/** The plants of `SITEWIRE_SIMULATOR`, each as its partner sees it. */
import { afterEach, describe, expect, it } from 'vitest';
import type { CommandFamily } from '../../protocol/routing-keys.ts';
import type { Partner } from '../../tools/partner.ts';
import type { Stack } from '../../tools/stack-file.ts';
import { cleanUp, newFolder, partnerOf, readSite, start } from '../support/dev-stack.ts';
import { eventually } from '../support/stack.ts';

interface Seen {
  stack: Stack;
  partner: Partner;
  /** Publishes a command; resolves with its acknowledgement. */
  send(family: string, payload: object): Promise<Sent>;
}

interface Sent {
  correlationId: string;
  answer: Record<string, unknown>;
  /** The execution events of it that came so far. */
  executions(): unknown[];
}

const CHARGE = {
  commands: [{ deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw: 20 } }],
};
const setpoint = (lastsMs?: number) => ({
  type: 'POWER',
  targetValueKw: 20,
  direction: 'IMPORT',
  includeConsumption: true,
  priority: 'NORMAL',
  validFrom: new Date().toISOString(),
  ...(lastsMs === undefined ? {} : { validUntil: new Date(Date.now() + lastsMs).toISOString() }),
});

let open: Partner | undefined;
afterEach(async () => {
  await open?.close();
  open = undefined;
  await cleanUp();
});

async function see(behaviour: string): Promise<Seen> {
  const { described: stack } = await start(newFolder(), { SITEWIRE_SIMULATOR: behaviour });
  const partner = await partnerOf(stack);
  open = partner;
  const send = async (family: CommandFamily, payload: object): Promise<Sent> => {
    const { correlationId } = await partner.publish(family, stack.plants[0]?.id ?? '', payload);
    const isOf = (queue: string) => (event: { queue: string; correlationId: string | undefined }) =>
      event.queue === queue && event.correlationId === correlationId;
    const { payload: answer } = await partner.waitFor(isOf('event.status'));
    const executions = () =>
      partner.events.filter(isOf('event.execution')).map((event) => event.payload.status);
    return { correlationId, answer, executions };
  };
  return { stack, partner, send };
}

async function batteryPowerKw(stack: Stack): Promise<number | null> {
  const { payload } = await readSite<{ payload: { batteryPowerKw: number | null } }>(
    stack,
    'telemetry/latest',
  );
  return payload.batteryPowerKw;
}

describe('the simulated plant', () => {
  it('that is offline is not there: commands wait for it', async () => {
    const { send } = await see('offline');
    expect((await send('site-setpoint', setpoint())).answer.status).toBe('QUEUED');
  }, 60_000);

  it('that is silent is there, and sends neither readings nor acknowledgements', async () => {
    const { stack, send } = await see('silent');
    const first = await send('site-setpoint', setpoint());
    const second = await send('device', CHARGE);
    expect([first.answer.status, second.answer.status]).toEqual(['ACCEPTED', 'ACCEPTED']);
    expect(await batteryPowerKw(stack)).toBeNull();
    expect([...first.executions(), ...second.executions()]).toEqual([]);
  }, 60_000);

  it('that is slow does what it is told, and says so later', async () => {
    const { stack, send } = await see('slow');
    const { executions } = await send('device', CHARGE);
    await eventually(async () => (await batteryPowerKw(stack)) === 20);
    expect(executions()).toEqual([]);
    await eventually(() => executions().includes('COMPLETED'), 20_000);
  }, 60_000);

  it('that is faulty reports a fault, and fails what it is told all the same', async () => {
    const { send } = await see('faulty');
    const { executions } = await send('site-setpoint', setpoint());
    await eventually(() => executions().includes('FAILED'));
    expect((await send('device', CHARGE)).answer).toMatchObject({
      status: 'REJECTED',
      rejectionCode: 'DEVICE_FAULT',
    });
  }, 60_000);

  it('that is short delivers a part of what it is told', async () => {
    const { stack, send } = await see('short');
    const { executions } = await send('device', CHARGE);
    await eventually(() => executions().includes('COMPLETED'));
    await eventually(async () => (await batteryPowerKw(stack)) === 12);
  }, 60_000);

  it('that is short deviates from a setpoint, which it holds to its end [C-7.8]', async () => {
    const { partner, send } = await see('short');
    const { executions, correlationId } = await send('site-setpoint', setpoint(4_000));
    await eventually(() => executions().includes('DEVIATED'), 20_000);
    expect(executions()).toEqual(['EXECUTING', 'DEVIATED']);
    const verdict = partner.events.find(
      (event) => event.correlationId === correlationId && event.payload.status === 'DEVIATED',
    );
    expect(verdict?.payload).toMatchObject({ targetValueKw: 20, actualValueKw: 12, deviationKw: -8 });
  }, 60_000);
});
