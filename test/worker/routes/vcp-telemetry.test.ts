/** GET /vcp/sites/{siteId}/telemetry: the history of one metric (spec: Telemetry point; [C-4.5]). */
import { beforeAll, describe, expect, it } from 'vitest';
import { expectError, read, send } from '../../support/workerd/rest.ts';
import { DAY, HOUR, holdClock, MINUTE, START_MS, setClock } from '../../support/workerd/site-clock.ts';
import type { Answered } from '../../support/workerd/telemetry-model.ts';
import { newTelemetrySite, type TelemetrySite, untilPacked } from '../../support/workerd/telemetry-site.ts';
import { createKey, createWorld, type Key } from '../../support/workerd/world.ts';

holdClock();

const METRIC = 'gridPowerKw';
const REGISTER = 'METER-1/importRegisterKwh';
const HOUR_RANGE = 'from=2030-03-05T09:00:00Z&to=2030-03-05T10:00:00Z';
const MIDNIGHT_MS = Date.parse('2030-03-05T00:00:00.000Z');

function pathOf(siteId: string, query: string): string {
  return `/api/v1/vcp/sites/${siteId}/telemetry?${query}`;
}

function queryOf(fields: Record<string, string | number>): string {
  const values = Object.entries(fields).map(([name, value]) => {
    const isMoment = name === 'from' || name === 'to';
    return [name, isMoment && typeof value === 'number' ? new Date(value).toISOString() : String(value)];
  });
  return new URLSearchParams(Object.fromEntries(values)).toString();
}

async function readingsOf(siteId: string, { key }: Key, query: string): Promise<Answered[]> {
  const body = await read<{ readings: Answered[] }>(pathOf(siteId, query), key);
  expect(Object.keys(body)).toEqual(['readings']);
  return body.readings;
}

async function newToldSite(): Promise<TelemetrySite & { key: Key }> {
  const scene = await newTelemetrySite();
  for (const minutes of [0, 1, 5, 61]) {
    setClock(START_MS + minutes * MINUTE);
    await scene.tell({ ts: Date.now(), data: { [METRIC]: minutes * 1_000, [REGISTER]: 100_000 + minutes } });
  }
  return { ...scene, key: await createKey(scene.organization) };
}

describe('GET /vcp/sites/{siteId}/telemetry', () => {
  it('answers readings as they were, ascending, without a count; raw is the default (spec: Telemetry point)', async () => {
    const { plant, key } = await newToldSite();
    const expected = [
      { timestamp: '2030-03-05T09:00:00.000Z', value: 0 },
      { timestamp: '2030-03-05T09:01:00.000Z', value: 1 },
      { timestamp: '2030-03-05T09:05:00.000Z', value: 5 },
    ];
    for (const granularity of ['', '&granularity=raw']) {
      const query = `metric=${METRIC}&${HOUR_RANGE}${granularity}`;
      expect(await readingsOf(plant.id, key, query)).toEqual(expected);
    }
  });

  it.each([
    [
      '5m',
      [
        ['09:00', 0.5, 2],
        ['09:05', 5, 1],
        ['10:00', 61, 1],
      ],
    ],
    [
      '1h',
      [
        ['09:00', 2, 3],
        ['10:00', 61, 1],
      ],
    ],
    ['1d', [['00:00', 16.75, 4]]],
  ] as const)(
    'answers buckets of %s as means with the readings behind each [C-4.5]',
    async (granularity, buckets) => {
      const { plant, key } = await newToldSite();
      const query = queryOf({ metric: METRIC, from: MIDNIGHT_MS, to: MIDNIGHT_MS + DAY, granularity });
      const expected = buckets.map(([time, value, count]) => ({
        timestamp: `2030-03-05T${time}:00.000Z`,
        value,
        count,
      }));
      expect(await readingsOf(plant.id, key, query)).toEqual(expected);
      await untilPacked(plant.id);
      expect(await readingsOf(plant.id, key, query)).toEqual(expected);
    },
  );

  it('answers registers by what they last said [C-4.5]', async () => {
    const { plant, key } = await newToldSite();
    const query = queryOf({ metric: REGISTER, from: MIDNIGHT_MS, to: MIDNIGHT_MS + DAY, granularity: '1h' });
    expect(await readingsOf(plant.id, key, query)).toEqual([
      { timestamp: '2030-03-05T09:00:00.000Z', value: 100.005, count: 3 },
      { timestamp: '2030-03-05T10:00:00.000Z', value: 100.061, count: 1 },
    ]);
  });

  it('takes any zone, and no zone but that of the moment counts (spec: ISO 8601)', async () => {
    const { plant, key } = await newToldSite();
    const query = queryOf({
      metric: METRIC,
      from: '2030-03-05T10:00:01+01:00',
      to: '2030-03-05T04:02:00-05:00',
    });
    expect(await readingsOf(plant.id, key, query)).toEqual([
      { timestamp: '2030-03-05T09:01:00.000Z', value: 1 },
    ]);
  });

  it.each([
    ['of SQL', `gridPowerKw' OR '1'='1`],
    ['that ends a statement', `gridPowerKw'; DROP TABLE telemetry_raw; --`],
    ['of LIKE', 'grid%'],
    ['of one character of LIKE', 'gridPowerK_'],
    ['of GLOB', '*'],
    ['that every object has', '__proto__'],
    ['with a NUL', 'gridPowerKw\u0000'],
    ['in other letters', 'GRIDPOWERKW'],
    ['of 200 characters', 'x'.repeat(200)],
    ['of another device', '@ffffffff-ffff-4fff-8fff-ffffffffffff/powerKw'],
  ])('answers a metric %s with nothing, and all is still there [C-4.5]', async (_what, metric) => {
    const { plant, key } = await newToldSite();
    for (const granularity of ['raw', '5m', '1h', '1d'])
      expect(
        await readingsOf(
          plant.id,
          key,
          queryOf({ metric, from: MIDNIGHT_MS, to: START_MS + HOUR, granularity }),
        ),
      ).toEqual([]);
    expect(await readingsOf(plant.id, key, `metric=${METRIC}&${HOUR_RANGE}`)).toHaveLength(3);
  });

  it('answers a key that may connect alone 403, none and a cookie alone 401 (spec: Authentication)', async () => {
    const { organization, plant } = await createWorld();
    const { key } = await createKey(organization, { scopes: ['vcp:connect'] });
    const path = pathOf(plant.id, `metric=${METRIC}&${HOUR_RANGE}`);
    await expectError(await send(path, { key }), 403, 'FORBIDDEN');
    await expectError(await send(path), 401, 'UNAUTHORIZED');
    await expectError(await send(path, { headers: { cookie: 'access_token=x' } }), 401, 'UNAUTHORIZED');
    await expectError(await send('/api/v1/vcp/sites/x/telemetry', { key }), 403, 'FORBIDDEN');
  });
});

describe('a query that cannot be answered', () => {
  let siteId: string;
  let key: Key;

  beforeAll(async () => {
    ({
      plant: { id: siteId },
      key,
    } = await createWorld());
  });

  const good = { metric: METRIC, from: '2030-03-05T09:00:00Z', to: '2030-03-05T10:00:00Z' };
  const without = (name: keyof typeof good) =>
    queryOf(Object.fromEntries(Object.entries(good).filter(([one]) => one !== name)));

  it.each([
    ['metric', 'is missing', without('metric')],
    ['metric', 'is empty', queryOf({ ...good, metric: '' })],
    ['metric', 'is 201 characters', queryOf({ ...good, metric: 'x'.repeat(201) })],
    ['metric', 'is there twice', `${queryOf(good)}&metric=fvePowerKw`],
    ['from', 'is missing', without('from')],
    ['from', 'is there twice', `${queryOf(good)}&from=2030-03-05T09:00:00Z`],
    ['from', 'is behind to', queryOf({ ...good, from: '2030-03-05T10:00:00.001Z' })],
    ['from', 'is to', queryOf({ ...good, from: good.to })],
    ['from', 'is a day that is none', queryOf({ ...good, from: '2024-02-30T00:00:00Z' })],
    ['from', 'is no moment', queryOf({ ...good, from: '2024-02-29' })],
    ['from', 'has no zone', queryOf({ ...good, from: '2030-03-05T09:00:00' })],
    ['from', 'has a plus that is a space', 'metric=a&from=2030-03-05T09:00:00+01:00&to=2030-03-05T10:00:00Z'],
    ['from', 'is before all time', queryOf({ ...good, from: '1969-12-31T23:59:59Z' })],
    ['to', 'is missing', without('to')],
    ['to', 'is there twice', `${queryOf(good)}&to=2030-03-05T10:00:00Z`],
    ['to', 'is a number', queryOf({ ...good, to: '1898931600000' })],
    ['to', 'is beyond all time', queryOf({ ...good, to: '+010000-01-01T00:00:00Z' })],
    ['granularity', 'is 1w', queryOf({ ...good, granularity: '1w' })],
    ['granularity', 'is RAW', queryOf({ ...good, granularity: 'RAW' })],
    ['granularity', 'is 15m', queryOf({ ...good, granularity: '15m' })],
    ['granularity', 'is empty', queryOf({ ...good, granularity: '' })],
    ['granularity', 'is there twice', `${queryOf(good)}&granularity=5m&granularity=5m`],
  ])('is refused by name: %s %s [C-4.5]', async (name, _what, query) => {
    const { details } = await expectError(
      await send(pathOf(siteId, query), { key: key.key }),
      400,
      'VALIDATION_ERROR',
    );
    expect(details).toEqual([expect.stringMatching(new RegExp(`^${name}: `))]);
  });

  it('is told all that is wrong with it (spec: Envelope)', async () => {
    const [wrong, twice] = ['metric=&from=x&to=1&granularity=1w', 'from=a&from=b&to=c&to=d'];
    for (const [query, names] of [
      [wrong, ['metric', 'from', 'to', 'granularity']],
      [twice, ['from', 'to']],
    ] as const) {
      const refused = await send(pathOf(siteId, query), { key: key.key });
      const { details } = await expectError(refused, 400, 'VALIDATION_ERROR');
      expect(details).toEqual(names.map((name) => expect.stringMatching(new RegExp(`^${name}: `))));
    }
  });

  it.each([
    ['raw', 7, ['5m', '1h', '1d']],
    ['5m', 92, ['1h', '1d']],
    ['1h', 732, ['1d']],
  ])(
    'asks for %s of more than %d days at once: what fits is named [C-4.5]',
    async (granularity, days, fits) => {
      const to = START_MS;
      const most = queryOf({ metric: METRIC, from: to - days * DAY, to, granularity });
      expect(await readingsOf(siteId, key, most)).toEqual([]);
      for (const from of [to - days * DAY - 1, to - 10 * 365 * DAY]) {
        const path = pathOf(siteId, queryOf({ metric: METRIC, from, to, granularity }));
        const { details } = await expectError(await send(path, { key: key.key }), 400, 'VALIDATION_ERROR');
        expect(details).toEqual([expect.stringMatching(new RegExp(`^to: at most ${days} days`))]);
        for (const one of fits) expect(String(details)).toMatch(new RegExp(`\\b${one}\\b`));
      }
    },
  );

  it('may ask for all time by the day [C-4.5]', async () => {
    const all = {
      metric: METRIC,
      from: '1970-01-01T00:00:00Z',
      to: '9999-12-31T23:59:59Z',
      granularity: '1d',
    };
    expect(await readingsOf(siteId, key, queryOf(all))).toEqual([]);
  });
});
