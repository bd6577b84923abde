/** The two sides of a comparison: this product, and what a user would build instead. The same load drives both. */
import { Partner } from '../partner.ts';
import type { SeededPlant } from '../seed.ts';
import { eventQueue } from './baseline/partner-broker.ts';
import { BaselineStack } from './baseline/stack.ts';
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { EventConsumer } from './event-consumer.ts';
import { processCpuMs } from './figures.ts';
import type { DeviceSide } from './instant-device.ts';
import type { RestSide } from './rest-load.ts';
import type { Sides } from './runner.ts';
import type { Observed } from './telemetry-load.ts';

export interface Side extends DeviceSide, Observed {
  name: 'ours' | 'baseline';
  plants: readonly SeededPlant[];
  rest: RestSide;
  partner(): Promise<Partner>;
  /** Consumes the alarms of one of the keys, from 0. */
  consumeAlarms(key: number): Promise<EventConsumer>;
  /** Kills the process that partners are connected to, and starts it again. */
  crash(): Promise<void>;
  /** Throws if a reading was dropped; only of a side that acknowledges before it stores. */
  checkStored?(): Promise<void>;
}

/** Starts both sides; `keys`: how many get every event. */
export async function againstBaseline(plants: number, keys = 1): Promise<Sides<Side>> {
  const stack = await startBenchStack({ organizations: [{ slug: 'acme', plants, moreKeys: keys - 1 }] });
  const baseline = await BaselineStack.start(stack.certificates, { plants, keys });
  return {
    sides: [ourSide(stack), baselineSide(baseline)],
    stop: async () => {
      await baseline.stop();
      await stack.stop();
    },
  };
}

function ourSide(stack: BenchStack): Side {
  const { ca, ports, token, plants, key, edge } = stack;
  return {
    ...{ name: 'ours', ca, ports, token, plants, rest: { url: edge.url, key } },
    partner: () => stack.partner(),
    consumeAlarms: async (index) =>
      EventConsumer.start(await Partner.connect(optionsOf(stack, index)), eventQueue('event.alarm', 0)),
    crash: () => stack.crashBridge(),
    cpuMs: () => processCpuMs(edge.pid() ?? 0) + processCpuMs(stack.bridgePid),
  };
}

function optionsOf(stack: BenchStack, key: number) {
  const [organization] = stack.organizations;
  const own = key === 0 ? organization?.apiKey : organization?.moreKeys[key - 1];
  if (!own) throw new Error(`The stack of this benchmark has no key ${key}: a bug of the benchmark`);
  return { ...stack.partnerOptions(), vhost: `partner-${own.id}`, key: own.key, signingKey: own.signingKey };
}

function baselineSide(stack: BaselineStack): Side {
  const { ca, ports, plants } = stack;
  return {
    ...{ name: 'baseline', ca, ports, plants, rest: { url: stack.url, key: stack.restKey } },
    token: (deviceId) => stack.token(deviceId),
    partner: () => stack.partner(),
    consumeAlarms: async (index) =>
      EventConsumer.start(await stack.partner(), eventQueue('event.alarm', index)),
    crash: async () => {
      await stack.killApplication();
      await stack.startApplication();
    },
    cpuMs: () => stack.cpuMs(),
    onStored: (listener) => {
      stack.onStored = listener;
      return () => {
        stack.onStored = () => {};
      };
    },
    checkStored: async () => {
      const { dropped, stored } = await stack.readings();
      if (dropped > 0) throw new Error(`the baseline dropped ${dropped} readings`);
      console.log(`  the baseline can read ${stored} readings over REST`);
    },
  };
}
