/** GET /vcp/sites/{siteId}/telemetry: the history of one metric (spec: Telemetry point; [C-4.5]). */
import { anonymous, bodyOf } from '#workerd/client.ts';
import { setScene } from '#workerd/scene.ts';
import { DAY, HOUR, holdClock, MINUTE, START_MS, setClock } from '#workerd/site-clock.ts';
import type { Answered } from '#workerd/telemetry-model.ts';
import { untilPacked } from '#workerd/telemetry-site.ts';
import { describe, expect, expectError, expectInvalid, test } from '#workerd/worker-test.ts';

holdClock();

const METRIC = 'gridPowerKw';
const REGISTER = 'METER-1/importRegisterKwh';
const HOUR_RANGE = 'from=2030-03-05T09:00:00Z&to=2030-03-05T10:00:00Z';
const MIDNIGHT_MS = Date.parse('2030-03-05T00:00:00.000Z');

function pathOf(siteId: string, query: string): string {
  return `/vcp/sites/${siteId}/telemetry?${query}`;
}

function queryOf(fields: Record<string, string | number>): string {
  const values = Object.entries(fields).map(([name, value]) => {
    const isMoment = name === 'from' || name === 'to';
    return [name, isMoment && typeof value === 'number' ? new Date(value).toISOString() : String(value)];
  });
  return new URLSearchParams(Object.fromEntries(values)).toString();
}

/** A site with readings at minutes 0, 1, 5 and 61; `history` reads them. */
const it = test
  .extend('site', async () => {
    const scene = await setScene({ plant: true, key: true, telemetry: 'modelled' });
    for (const minutes of [0, 1, 5, 61]) {
      setClock(START_MS + minutes * MINUTE);
      const data = { [METRIC]: minutes * 1_000, [REGISTER]: 100_000 + minutes };
      await scene.send({ ts: Date.now(), data });
    }
    return scene;
  })
  .extend('history', ({ site: { plant, key } }) => async (query: string) => {
    const body = await key.read<{ readings: Answered[] }>(pathOf(plant.id, query));
    expect(Object.keys(body)).toEqual(['readings']);
    return body.readings;
  })
  /** Asks for the history of a site without readings. */
  .extend('ask', { scope: 'file' }, async () => {
    const { plant, key } = await setScene({ plant: true, key: true });
    return (query: string) => key.call(pathOf(plant.id, query));
  });

describe('GET /vcp/sites/{siteId}/telemetry', () => {
  it('returns without a granularity the raw readings, oldest first (spec: Telemetry point)', async ({
    history,
  }) => {
    const expected = [
      { timestamp: '2030-03-05T09:00:00.000Z', value: 0 },
      { timestamp: '2030-03-05T09:01:00.000Z', value: 1 },
      { timestamp: '2030-03-05T09:05:00.000Z', value: 5 },
    ];
    for (const granularity of ['', '&granularity=raw']) {
      const query = `metric=${METRIC}&${HOUR_RANGE}${granularity}`;
      expect(await history(query)).toEqual(expected);
    }
  });

  it.for([
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
    'buckets of %s are means with a count [C-4.5]',
    async ([granularity, buckets], { site, history }) => {
      const query = queryOf({ metric: METRIC, from: MIDNIGHT_MS, to: MIDNIGHT_MS + DAY, granularity });
      const expected = buckets.map(([time, value, count]) => ({
        timestamp: `2030-03-05T${time}:00.000Z`,
        value,
        count,
      }));
      expect(await history(query)).toEqual(expected);
      await untilPacked(site.plant.id);
      expect(await history(query)).toEqual(expected);
    },
  );

  it('buckets of registers have the last value [C-4.5]', async ({ history }) => {
    const query = queryOf({ metric: REGISTER, from: MIDNIGHT_MS, to: MIDNIGHT_MS + DAY, granularity: '1h' });
    expect(await history(query)).toEqual([
      { timestamp: '2030-03-05T09:00:00.000Z', value: 100.005, count: 3 },
      { timestamp: '2030-03-05T10:00:00.000Z', value: 100.061, count: 1 },
    ]);
  });

  it('from and to may have any time zone (spec: ISO 8601)', async ({ history }) => {
    const range = { from: '2030-03-05T10:00:01+01:00', to: '2030-03-05T04:02:00-05:00' };
    const found = await history(queryOf({ metric: METRIC, ...range }));
    expect(found).toEqual([{ timestamp: '2030-03-05T09:01:00.000Z', value: 1 }]);
  });

  it.for<[string, string]>([
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
  ])('a metric %s has no readings and changes nothing [C-4.5]', async ([_what, metric], { history }) => {
    for (const granularity of ['raw', '5m', '1h', '1d']) {
      const query = queryOf({ metric, from: MIDNIGHT_MS, to: START_MS + HOUR, granularity });
      expect(await history(query)).toEqual([]);
    }
    expect(await history(`metric=${METRIC}&${HOUR_RANGE}`)).toHaveLength(3);
  });

  it('a key with only a connect scope gets 403, a request without a key 401 (spec: Authentication)', async ({
    plant,
    newKey,
  }) => {
    const weak = await newKey({ scopes: ['vcp:connect'] });
    const path = pathOf(plant.id, `metric=${METRIC}&${HOUR_RANGE}`);
    await expectError(await weak.call(path), 403, 'FORBIDDEN');
    await expectError(await anonymous.call(path), 401, 'UNAUTHORIZED');
    const headers = { cookie: 'access_token=x' };
    await expectError(await anonymous.call(path, { headers }), 401, 'UNAUTHORIZED');
    await expectError(await weak.call('/vcp/sites/x/telemetry'), 403, 'FORBIDDEN');
  });
});

describe('a query that cannot be answered', () => {
  const good = { metric: METRIC, from: '2030-03-05T09:00:00Z', to: '2030-03-05T10:00:00Z' };
  const without = (name: keyof typeof good) =>
    queryOf(Object.fromEntries(Object.entries(good).filter(([one]) => one !== name)));

  it.for<[string, string, string]>([
    ['metric', 'is missing', without('metric')],
    ['metric', 'is empty', queryOf({ ...good, metric: '' })],
    ['metric', 'is 201 characters', queryOf({ ...good, metric: 'x'.repeat(201) })],
    ['metric', 'is there twice', `${queryOf(good)}&metric=fvePowerKw`],
    ['from', 'is missing', without('from')],
    ['from', 'is there twice', `${queryOf(good)}&from=2030-03-05T09:00:00Z`],
    ['from', 'is after to', queryOf({ ...good, from: '2030-03-05T10:00:00.001Z' })],
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
  ])('the parameter %s is refused if it %s [C-4.5]', async ([name, _what, query], { ask }) => {
    await expectInvalid(await ask(query), name);
  });

  it('the details of the 400 name every wrong parameter (spec: Envelope)', async ({ ask }) => {
    const [wrong, twice] = ['metric=&from=x&to=1&granularity=1w', 'from=a&from=b&to=c&to=d'];
    for (const [query, names] of [
      [wrong, ['metric', 'from', 'to', 'granularity']],
      [twice, ['from', 'to']],
    ] as const) {
      const { details } = await expectError(await ask(query), 400, 'VALIDATION_ERROR');
      expect(details).toEqual(names.map((name) => expect.stringMatching(new RegExp(`^${name}: `))));
    }
  });

  it.for<[string, number, string[]]>([
    ['raw', 7, ['5m', '1h', '1d']],
    ['5m', 92, ['1h', '1d']],
    ['1h', 732, ['1d']],
  ])(
    'granularity %s covers at most %d days, and the refusal names wider ones [C-4.5]',
    async ([granularity, days, fits], { ask }) => {
      const to = START_MS;
      const most = queryOf({ metric: METRIC, from: to - days * DAY, to, granularity });
      expect(await bodyOf(await ask(most), 200)).toEqual({ readings: [] });
      for (const from of [to - days * DAY - 1, to - 10 * 365 * DAY]) {
        const tooLong = await ask(queryOf({ metric: METRIC, from, to, granularity }));
        const { details } = await expectError(tooLong, 400, 'VALIDATION_ERROR');
        expect(details).toEqual([
          expect.stringMatching(new RegExp(`^to: the range is longer than ${days} days`)),
        ]);
        for (const one of fits) expect(String(details)).toMatch(new RegExp(`\\b${one}\\b`));
      }
    },
  );

  it('granularity 1d has no limit of days [C-4.5]', async ({ ask }) => {
    const all = { from: '1970-01-01T00:00:00Z', to: '9999-12-31T23:59:59Z', granularity: '1d' };
    const answer = await ask(queryOf({ metric: METRIC, ...all }));
    expect(await bodyOf(answer, 200)).toEqual({ readings: [] });
  });
});
