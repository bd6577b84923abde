/** GET /vcp/sites/{siteId}/config (spec: Site configuration snapshot; [C-2.3]). */
import { vi } from 'vitest';
import type { KeyClient } from '#workerd/client.ts';
import { connectDevice, publishFrame } from '#workerd/links.ts';
import { futureSetpoint, publishAll } from '#workerd/publishes.ts';
import { connectListening, nthCommand, sendAck } from '#workerd/site-devices.ts';
import type { LogPage } from '#workerd/site-reads.ts';
import { describe, expect, it } from '#workerd/worker-test.ts';
import type { World } from '#workerd/world.ts';
import { addPlant, createPlant } from '#workerd/world.ts';
import { apiKeyPrefix } from '../../../protocol/api-key.ts';
import { type SiteConfig, UNLIMITED } from '../../../protocol/site-config.ts';

interface ConfigSnapshot {
  operatingMode: string;
  modeOverride: Record<string, unknown> | null;
  pendingCommands: Record<string, unknown>[];
}

const CONFIG: SiteConfig = {
  constraints: { ...UNLIMITED, maxImportKw: 100, minSocPercent: 10 },
  hardLimits: { ...UNLIMITED, maxImportKw: 500 },
  fallback: { mode: 'ZERO_EXPORT', afterSeconds: 300, action: 'HOLD', setpointKw: null },
  operatingMode: 'LOCAL_OPTIMIZATION',
};
/** Fields of a plant without commands. */
const IDLE = { modeOverride: null, activeSchedule: null, pendingCommands: [] };

async function readConfig(siteId: string, key: KeyClient): Promise<ConfigSnapshot> {
  return await key.read(`/vcp/sites/${siteId}/config`);
}

/** Publishes a mode command, which the plant’s gateway acknowledges. */
async function setMode({ organization, plant, key }: World, payload: object): Promise<void> {
  const link = await connectListening(plant);
  await publishAll(key, [publishFrame(organization, key, plant.id, 'mode', payload)]);
  await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'RECEIVED');
}

describe('GET /vcp/sites/{siteId}/config', () => {
  it('the snapshot has no hard limits (spec: Site configuration snapshot)', async ({ organization, key }) => {
    const plant = await createPlant(organization, { config: CONFIG });
    expect(await readConfig(plant.id, key)).toEqual({
      siteId: plant.id,
      constraints: CONFIG.constraints,
      fallback: CONFIG.fallback,
      operatingMode: 'LOCAL_OPTIMIZATION',
      ...IDLE,
    });
  });

  it('a new plant is STANDARD, without constraints and fallback (spec: Site configuration snapshot)', async ({
    organization,
    key,
  }) => {
    const id = await addPlant(organization);
    expect(await readConfig(id, key)).toEqual({
      siteId: id,
      constraints: null,
      fallback: null,
      operatingMode: 'STANDARD',
      ...IDLE,
    });
  });

  it('siteId is in lower case, also if the path has upper case (spec: siteId)', async ({ plant, key }) => {
    expect(await readConfig(plant.id.toUpperCase(), key)).toMatchObject({ siteId: plant.id });
  });

  it('a mode command without validUntil changes the operating mode [C-7.7]', async ({ world }) => {
    await setMode(world, { mode: 'PEAK_SHAVING' });
    const config = await readConfig(world.plant.id, world.key);
    expect(config).toMatchObject({ operatingMode: 'PEAK_SHAVING', modeOverride: null });
  });

  it('a mode command with validUntil is the modeOverride until then [C-2.3]', async ({ world }) => {
    const { plant, key } = world;
    const untilMs = Date.now() + 60_000;
    const mode = { mode: 'ZERO_EXPORT', reason: 'congestion', validUntil: new Date(untilMs).toISOString() };
    await setMode(world, mode);
    expect(await readConfig(plant.id, key)).toMatchObject({
      operatingMode: 'STANDARD',
      modeOverride: {
        ...mode,
        validFrom: expect.stringMatching(/Z$/),
        commandId: expect.any(String),
        setBy: apiKeyPrefix(key.key),
      },
    });
    const latest = () => key.read(`/vcp/sites/${plant.id}/telemetry/latest`);
    expect(await latest()).toMatchObject({ payload: { currentOperatingMode: 'ZERO_EXPORT' } });

    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(untilMs);
    expect(await readConfig(plant.id, key)).toMatchObject({ operatingMode: 'STANDARD', modeOverride: null });
    expect(await latest()).toMatchObject({ payload: { currentOperatingMode: 'STANDARD' } });
  });

  it('open commands are listed as log rows (spec: pendingCommands)', async ({ organization, plant, key }) => {
    const link = await connectDevice(plant);
    link.send({ kind: 'subscribed', commands: true });
    const battery = { deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw: 5 } };
    const pv = { deviceId: 'FVE-1', assetType: 'FVE', command: 'FVE_STOP' };
    await publishAll(key, [
      publishFrame(organization, key, plant.id, 'device', { commands: [battery] }, { correlationId: 'ends' }),
      publishFrame(organization, key, plant.id, 'device', { commands: [pv] }, { correlationId: 'executes' }),
      publishFrame(organization, key, plant.id, 'device', { commands: [] }, { correlationId: 'rejected' }),
      futureSetpoint(organization, key, plant.id, 1, { correlationId: 'waits' }),
    ]);
    const cmdIdOf = async (action: string) => {
      const frame = await link.next((one) => one.kind === 'command' && one.payload.includes(`"${action}"`));
      return (JSON.parse(frame.kind === 'command' ? frame.payload : '{}') as { cmdId: string }).cmdId;
    };
    const [ending, executing] = [await cmdIdOf('BESS_CHARGE'), await cmdIdOf('FVE_STOP')];
    await sendAck(link, plant.gateway, ending, 'COMPLETED');
    await sendAck(link, plant.gateway, executing, 'RECEIVED');

    const { pendingCommands } = await readConfig(plant.id, key);
    expect(pendingCommands.map(({ correlationId, status }) => [correlationId, status])).toEqual([
      ['waits', 'PENDING'],
      ['executes', 'EXECUTING'],
    ]);
    const { items } = await key.read<LogPage>(`/vcp/sites/${plant.id}/commands`);
    expect(items).toEqual(expect.arrayContaining(pendingCommands));
  });

  it('the 100 newest open commands are listed (spec: Limits)', async ({ organization, plant, key }) => {
    const frames = Array.from({ length: 103 }, (_, index) =>
      futureSetpoint(organization, key, plant.id, 1, { correlationId: `c${index + 1}` }),
    );
    await publishAll(key, frames);
    const { pendingCommands } = await readConfig(plant.id, key);
    expect(pendingCommands.map((command) => command.correlationId)).toEqual(
      Array.from({ length: 100 }, (_, index) => `c${103 - index}`),
    );
  });
});
