/** GET /vcp/sites/{siteId}/commands: the command log, newest first (spec: Command-log page; [C-4.3]). */
import { publishFrame } from '#workerd/links.ts';
import { futureSetpoint, publishAll } from '#workerd/publishes.ts';
import { describe, expect, expectInvalid, test } from '#workerd/worker-test.ts';
import type { World } from '#workerd/world.ts';
import { createPlant } from '#workerd/world.ts';
import { apiKeyPrefix } from '../../../protocol/api-key.ts';
import { isUuid, parseInstant } from '../../../protocol/ids.ts';

interface CommandPage {
  items: Record<string, unknown>[];
  page: number;
  pageSize: number;
  total: number;
}

const REQUIRED_FIELDS = [
  'id',
  'messageId',
  'correlationId',
  'siteId',
  'commandType',
  'routingKey',
  'status',
  'target',
  'payload',
  'source',
  'keyPrefix',
  'createdAt',
];
const OPTIONAL_FIELDS = [
  'priority',
  'rejectionCode',
  'message',
  'results',
  'validFrom',
  'validUntil',
  'actualValueKw',
  'targetValueKw',
  'deviationKw',
  'reason',
  'ackedAt',
  'dispatchedAt',
  'startedAt',
  'finishedAt',
  'decision',
];

const it = test
  .extend('path', ({ plant }) => `/vcp/sites/${plant.id}/commands`)
  .extend('readPage', ({ path, key }) => async (query = '') => {
    const page = await key.read<CommandPage>(`${path}${query}`);
    expect(Object.keys(page).sort()).toEqual(['items', 'page', 'pageSize', 'total']);
    return page;
  });

/** Publishes that many setpoints with the correlationIds c1, c2, …; c1 is the oldest. */
async function publishNumbered({ organization, plant, key }: World, count: number): Promise<void> {
  const frames = Array.from({ length: count }, (_, index) =>
    futureSetpoint(organization, key, plant.id, 1, { correlationId: `c${index + 1}` }),
  );
  await publishAll(key, frames);
}

function correlationIds(page: CommandPage): unknown[] {
  return page.items.map((item) => item.correlationId);
}

const isInstant = expect.toSatisfy((text: string) => parseInstant(text) !== undefined);

describe('GET /vcp/sites/{siteId}/commands', () => {
  it('a site without commands has an empty first page of 50 (spec: Limits)', async ({ readPage }) => {
    expect(await readPage()).toEqual({ items: [], page: 1, pageSize: 50, total: 0 });
  });

  it('a setpoint is shown with the fields of the log [C-4.3]', async ({ world, readPage }) => {
    const { organization, plant, key } = world;
    const messageId = crypto.randomUUID();
    const frame = futureSetpoint(organization, key, plant.id, 12.5, { messageId, correlationId: 'corr-1' });
    await publishAll(key, [frame]);
    const { items, total } = await readPage();
    const { payload } = JSON.parse(frame.body) as { payload: { validFrom: string } };
    expect(total).toBe(1);
    expect(items).toEqual([
      {
        id: expect.toSatisfy(isUuid),
        messageId,
        correlationId: 'corr-1',
        siteId: plant.id,
        commandType: 'SITE_SETPOINT',
        routingKey: `${organization.slug}.command.site-setpoint`,
        status: 'PENDING',
        priority: 'NORMAL',
        target: 'SITE',
        payload,
        source: 'partner',
        keyPrefix: apiKeyPrefix(key.key),
        validFrom: payload.validFrom,
        targetValueKw: 12.5,
        decision: { stage: 'plan', facts: expect.objectContaining({ isOnTop: false }) },
        createdAt: isInstant,
        ackedAt: isInstant,
      },
    ]);
  });

  it('a rejected batch is shown with code, message and results [C-7.5]', async ({ world, readPage }) => {
    const { organization, plant, key } = world;
    const commands = [{ deviceId: 'BESS-9', assetType: 'BESS', command: 'BESS_STOP' }];
    await publishAll(key, [publishFrame(organization, key, plant.id, 'device', { commands })]);
    const { items } = await readPage();
    expect(items).toMatchObject([
      {
        commandType: 'DEVICE_COMMAND',
        status: 'REJECTED',
        rejectionCode: 'DEVICE_OFFLINE',
        message: expect.any(String),
        results: [{ index: 0, deviceId: 'BESS-9', status: 'REJECTED', rejectionCode: 'DEVICE_OFFLINE' }],
        payload: { commands },
      },
    ]);
  });

  it('a payload is shown exactly as it was sent (spec: Command-log page)', async ({ world, path }) => {
    const { organization, plant, key } = world;
    const frame = publishFrame(organization, key, plant.id, 'mode', { mode: 'PLACE' }, { sign: false });
    const payload = '{"mode":"NONE","n":9007199254740993,"x":1.0,"s":"\\u00e9"}';
    await publishAll(key, [{ ...frame, body: frame.body.replace('{"mode":"PLACE"}', payload) }]);
    expect(await (await key.call(path)).text()).toContain(`"payload":${payload}`);
  });

  it('every row has the required fields and no unknown one [C-4.3]', async ({ world, readPage }) => {
    const { organization, plant, key } = world;
    const battery = { deviceId: 'BESS-1', assetType: 'BESS' };
    const charge = { ...battery, command: 'BESS_CHARGE', params: { powerKw: 5 } };
    await publishAll(key, [
      publishFrame(organization, key, plant.id, 'device', { commands: [charge] }),
      publishFrame(organization, key, plant.id, 'device', { commands: 'none' }),
      publishFrame(organization, key, plant.id, 'mode', { mode: 'PEAK_SHAVING' }),
      publishFrame(organization, key, plant.id, 'mode', { mode: 'PEAK_SHAVING' }, { sign: false }),
      publishFrame(organization, key, plant.id, 'emergency', { type: 'STOP', reason: 'test' }),
      futureSetpoint(organization, key, plant.id, 1_000_000),
    ]);
    const { items, total } = await readPage();
    expect([items.length, total]).toEqual([6, 6]);
    for (const item of items) {
      expect(Object.keys(item)).toEqual(expect.arrayContaining(REQUIRED_FIELDS));
      expect([...REQUIRED_FIELDS, ...OPTIONAL_FIELDS]).toEqual(expect.arrayContaining(Object.keys(item)));
      expect(['PENDING', 'EXECUTING', 'COMPLETED', 'DEVIATED', 'FAILED', 'REJECTED']).toContain(item.status);
    }
  });

  it('rows are listed newest first, in pages (spec: Command-log page)', async ({ world, readPage }) => {
    await publishNumbered(world, 7);
    expect(correlationIds(await readPage())).toEqual(['c7', 'c6', 'c5', 'c4', 'c3', 'c2', 'c1']);
    const pages = [
      ['?page=1&pageSize=3', 1, ['c7', 'c6', 'c5']],
      ['?page=2&pageSize=3', 2, ['c4', 'c3', 'c2']],
      ['?page=3&pageSize=3', 3, ['c1']],
      ['?page=4&pageSize=3', 4, []],
      ['?page=999999&pageSize=3', 999_999, []],
    ] as const;
    for (const [query, page, expected] of pages) {
      const found = await readPage(query);
      const { pageSize, total } = found;
      expect([found.page, pageSize, total, correlationIds(found)]).toEqual([page, 3, 7, expected]);
    }
    const all = await readPage('?pageSize=500');
    expect([all.page, all.pageSize, all.items.length]).toEqual([1, 500, 7]);
  });

  it('the default page has 50 rows (spec: Limits)', async ({ world, readPage }) => {
    await publishNumbered(world, 52);
    const first = await readPage();
    expect([first.items.length, first.total]).toEqual([50, 52]);
    expect(correlationIds(await readPage('?page=2'))).toEqual(['c2', 'c1']);
  });

  it('a command that repeats a messageId adds no row [C-7.3]', async ({ world, readPage }) => {
    const frame = futureSetpoint(world.organization, world.key, world.plant.id, 1);
    await publishAll(world.key, [frame, frame]);
    expect(await readPage()).toMatchObject({ total: 1, items: [{}] });
  });

  it('each site has its own log (spec: Partner read surface)', async ({ world }) => {
    await publishNumbered(world, 1);
    const neighbour = await createPlant(world.organization);
    expect(await world.key.read(`/vcp/sites/${neighbour.id}/commands`)).toMatchObject({ total: 0 });
  });

  it('an invalid page or pageSize gets 400 (spec: Limits)', async ({ key, path }) => {
    const numbers = ['0', '-1', '+5', '1e3', '50abc', '1.0', '0x10', '', '%20', '5%0A', '１'];
    const queries = [
      ...[...numbers, 'NaN', 'null', '__proto__'].flatMap((value) =>
        ['page', 'pageSize'].map((name) => [name, `${name}=${value}`]),
      ),
      ['pageSize', 'pageSize=501'],
      ['pageSize', 'pageSize=99999999999999999999'],
      ['page', 'page=99999999999999999999'],
      ['page', 'page=1&page=1'],
      ['pageSize', 'pageSize=5&pageSize=5'],
    ];
    for (const [name = '', query] of queries)
      await expectInvalid(await key.call(`${path}?${query}`), name, query);
  });
});
