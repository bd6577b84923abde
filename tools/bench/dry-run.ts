/** What a dry run costs next to the command itself, and what fifty at once do to the commands of a plant [C-13.1]. */
import { setTimeout as pause } from 'node:timers/promises';
import type { CommandFamily } from '../../protocol/routing-keys.ts';
import { AdminClient } from '../admin-client.ts';
import { signedPublish } from '../partner.ts';
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { CommandLoad } from './command-load.ts';
import { median, percentile, processCpuMs, report } from './figures.ts';
import { connectInstantDevice } from './instant-device.ts';

const ROUNDS = 5;
const CALLS = 400;
const AT_ONCE = 50;
const COMMANDS = 1_500;

const BATCH = {
  commands: [{ deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw: 5 } }],
};

export async function benchDryRun(): Promise<void> {
  const stack = await startBenchStack({ plants: 2 });
  const [busy, idle] = stack.plants;
  const [organization] = stack.organizations;
  if (!busy || !idle || !organization) throw new Error('The stack of this benchmark has too few plants');
  const admin = await AdminClient.enter(stack.edge.url, stack.login);
  const settings = { restRatePerMinute: 1_000_000, publishRatePerSecond: 10_000 };
  await admin.call('PATCH', `/organizations/${organization.id}`, { settings });
  const send = senderOf(stack, organization.apiKey);

  // 1. CPU, in turn, on a plant whose gateway is away
  const cpu = { asked: [] as number[], sent: [] as number[] };
  for (let round = 0; round <= ROUNDS; round++) {
    for (const way of ['asked', 'sent'] as const) {
      const spent = await cpuOf(stack, () => send(way, 'device', idle.id, BATCH));
      // The first round compiles the code.
      if (round > 0) cpu[way].push(spent);
    }
  }

  // 2. the commands of a plant, alone and beside dry runs
  const device = await connectInstantDevice(stack, busy);
  const partner = await stack.partner();
  const load = await CommandLoad.start(partner);
  await load.run([busy], 1, COMMANDS);
  const times = { alone: [] as number[], beside: [] as number[] };
  for (let round = 0; round < ROUNDS; round++) {
    times.alone.push(percentile((await load.run([busy], 1, COMMANDS)).ack, 0.5));
    let isOver = false;
    const asking = Array.from({ length: AT_ONCE }, async () => {
      while (!isOver) {
        await send('asked', 'device', busy.id, BATCH);
        // Fifty at once, and then again: a partner who asks before each command, not an attack.
        await pause(1_000);
      }
    });
    times.beside.push(percentile((await load.run([busy], 1, COMMANDS)).ack, 0.5));
    isOver = true;
    await Promise.all(asking);
  }
  await partner.close();
  device.end(true);
  await stack.stop();
  const [asked, sent] = [median(cpu.asked), median(cpu.sent)];
  const [alone, beside] = [median(times.alone), median(times.beside)];
  report('dry-run', `dry runs of a batch over HTTPS, ${ROUNDS} rounds in turn`, [
    { name: 'edge CPU per dry run', value: asked, unit: 'ms' },
    { name: 'edge CPU per command over HTTPS', value: sent, unit: 'ms' },
    { name: 'ratio', value: asked / sent, unit: '', target: '≤ 1.3' },
    { name: 'publish → ack p50, 1 in flight, alone', value: alone, unit: 'ms' },
    { name: `the same, ${AT_ONCE} dry runs at once each second`, value: beside, unit: 'ms' },
    { name: 'ratio of the p50', value: beside / alone, unit: '', target: '≤ 1.5' },
  ]);
}

/** Sends one command over HTTPS: as a dry run, or in earnest. */
function senderOf(stack: BenchStack, { key, signingKey }: { key: string; signingKey: string }) {
  return async (way: 'asked' | 'sent', family: CommandFamily, siteId: string, payload: object) => {
    const { routingKey, body: message } = signedPublish('acme', signingKey, family, siteId, payload);
    const path = `/api/v1/vcp/sites/${siteId}/commands${way === 'asked' ? '/dry-run' : ''}`;
    const response = await fetch(`${stack.edge.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': key },
      body: JSON.stringify({ routingKey, message }),
    });
    const answer = await response.text();
    if (!response.ok) throw new Error(`${response.status} ${answer}`);
  };
}

async function cpuOf(stack: BenchStack, call: () => Promise<void>): Promise<number> {
  const pid = stack.edge.pid() ?? 0;
  const before = processCpuMs(pid);
  for (let count = 0; count < CALLS; count++) await call();
  return (processCpuMs(pid) - before) / CALLS;
}
