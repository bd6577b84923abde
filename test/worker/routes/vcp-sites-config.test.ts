/** GET /vcp/sites/{siteId}/config (spec: Site configuration snapshot; [C-2.3]). */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { apiKeyPrefix } from '../../../protocol/api-key.ts';
import { type SiteConfig, UNLIMITED } from '../../../protocol/site-config.ts';
import { ackMessage, connectDevice, publishFrame } from '../../support/workerd/links.ts';
import { futureSetpoint, publishAll } from '../../support/workerd/publishes.ts';
import { read } from '../../support/workerd/rest.ts';
import { connectListening, nthCommand, sendAck } from '../../support/workerd/site-devices.ts';
import {
  addPlant,
  createKey,
  createOrganization,
  createWorld,
  type Key,
  type Plant,
} from '../../support/workerd/world.ts';

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

async function readConfig(siteId: string, key: Key): Promise<ConfigSnapshot> {
  return await read<ConfigSnapshot>(`/api/v1/vcp/sites/${siteId}/config`, key.key);
}

/** Publishes a command, and has the plant's gateway take it: a mode acts from there on. */
async function obeyed(plant: Plant, key: Key, frame: ReturnType<typeof publishFrame>): Promise<void> {
  const link = await connectListening(plant);
  await publishAll(key, [frame]);
  await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'RECEIVED');
}

afterEach(() => {
  vi.useRealTimers();
});

describe('GET /vcp/sites/{siteId}/config', () => {
  it('shows the snapshot with its fields and no others, hard limits not among them (spec: Site configuration snapshot)', async () => {
    const { plant, key } = await createWorld({ config: CONFIG });
    expect(await readConfig(plant.id, key)).toEqual({
      siteId: plant.id,
      constraints: CONFIG.constraints,
      fallback: CONFIG.fallback,
      operatingMode: 'LOCAL_OPTIMIZATION',
      modeOverride: null,
      activeSchedule: null,
      pendingCommands: [],
    });
  });

  it('shows a plant that nobody configured with nulls and STANDARD (spec: Site configuration snapshot)', async () => {
    const organization = await createOrganization();
    const id = await addPlant(organization);
    expect(await readConfig(id, await createKey(organization))).toEqual({
      siteId: id,
      constraints: null,
      fallback: null,
      operatingMode: 'STANDARD',
      modeOverride: null,
      activeSchedule: null,
      pendingCommands: [],
    });
  });

  it('names the site in lower case, however the path spells it (spec: siteId)', async () => {
    const { plant, key } = await createWorld();
    expect(await readConfig(plant.id.toUpperCase(), key)).toMatchObject({ siteId: plant.id });
  });

  it('takes a mode without an end as the operating mode [C-7.7]', async () => {
    const { organization, plant, key } = await createWorld();
    await obeyed(plant, key, publishFrame(organization, key, plant.id, 'mode', { mode: 'PEAK_SHAVING' }));
    expect(await readConfig(plant.id, key)).toMatchObject({
      operatingMode: 'PEAK_SHAVING',
      modeOverride: null,
    });
  });

  it('shows a mode with an end as the override until then, and null from then on [C-2.3]', async () => {
    const { organization, plant, key } = await createWorld();
    const untilMs = Date.now() + 60_000;
    const mode = { mode: 'ZERO_EXPORT', reason: 'congestion', validUntil: new Date(untilMs).toISOString() };
    await obeyed(plant, key, publishFrame(organization, key, plant.id, 'mode', mode));
    expect(await readConfig(plant.id, key)).toMatchObject({
      operatingMode: 'STANDARD',
      modeOverride: {
        ...mode,
        validFrom: expect.stringMatching(/Z$/),
        commandId: expect.any(String),
        setBy: apiKeyPrefix(key.key),
      },
    });
    const latestPath = `/api/v1/vcp/sites/${plant.id}/telemetry/latest`;
    const currentMode = async () =>
      (await read<{ payload: { currentOperatingMode: string } }>(latestPath, key.key)).payload
        .currentOperatingMode;
    expect(await currentMode()).toBe('ZERO_EXPORT');

    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(untilMs);
    expect(await readConfig(plant.id, key)).toMatchObject({ operatingMode: 'STANDARD', modeOverride: null });
    expect(await currentMode()).toBe('STANDARD');
  });

  it('lists commands that are PENDING or EXECUTING as log rows, newest first, and none that ended (spec: pendingCommands)', async () => {
    const { organization, plant, key } = await createWorld();
    const device = await connectDevice(plant);
    device.send({ kind: 'subscribed', commands: true });
    const battery = { deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw: 5 } };
    const pv = { deviceId: 'FVE-1', assetType: 'FVE', command: 'FVE_STOP' };
    await publishAll(key, [
      publishFrame(organization, key, plant.id, 'device', { commands: [battery] }, { correlationId: 'ends' }),
      publishFrame(organization, key, plant.id, 'device', { commands: [pv] }, { correlationId: 'executes' }),
      publishFrame(organization, key, plant.id, 'device', { commands: [] }, { correlationId: 'rejected' }),
      futureSetpoint(organization, key, plant.id, 1, { correlationId: 'waits' }),
    ]);
    const cmdIdOf = async (action: string) => {
      const frame = await device.next((one) => one.kind === 'command' && one.payload.includes(`"${action}"`));
      return (JSON.parse(frame.kind === 'command' ? frame.payload : '{}') as { cmdId: string }).cmdId;
    };
    const [ending, executing] = [await cmdIdOf('BESS_CHARGE'), await cmdIdOf('FVE_STOP')];
    device.send(
      { kind: 'publish', seq: 1, topic: 'ack', payload: ackMessage(plant.gateway, ending, 'COMPLETED') },
      { kind: 'publish', seq: 2, topic: 'ack', payload: ackMessage(plant.gateway, executing, 'RECEIVED') },
    );
    await device.next((frame) => frame.kind === 'stored' && frame.seqs.includes(2));

    const { pendingCommands } = await readConfig(plant.id, key);
    expect(pendingCommands.map(({ correlationId, status }) => [correlationId, status])).toEqual([
      ['waits', 'PENDING'],
      ['executes', 'EXECUTING'],
    ]);
    const log = await read<{ items: Record<string, unknown>[] }>(
      `/api/v1/vcp/sites/${plant.id}/commands`,
      key.key,
    );
    expect(log.items).toEqual(expect.arrayContaining(pendingCommands));
  });

  it('lists at most the 100 newest pending commands (spec: Limits)', async () => {
    const { organization, plant, key } = await createWorld();
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
