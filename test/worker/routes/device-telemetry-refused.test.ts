/** GET /telemetry/{deviceId} refuses invalid queries and names the parameter [C-3.5], [C-4.5]. */
import { bodyOf } from '#workerd/client.ts';
import { DAY, holdClock, START_MS } from '#workerd/site-clock.ts';
import { describe, expect, expectError, expectInvalid, test } from '#workerd/worker-test.ts';

holdClock();

const it = test
  .extend('deviceId', ({ team }) => team.newDeviceIn('PENDING'))
  .extend('ask', ({ team, deviceId }) => (query: string) => {
    return team.viewer.call(`/telemetry/${deviceId}?${query}`);
  });

describe('a query that cannot be answered', () => {
  it.for<[string, string]>([
    ['metric', 'metric='],
    ['metric', `metric=${'x'.repeat(201)}`],
    ['metric', 'metric=a&metric=a'],
    ['from', 'from=2024-02-30T00:00:00Z'],
    ['from', 'from=2030-03-05T09:00:00'],
    ['from', 'from=2030-03-05T09:00:00Z&to=2030-03-05T09:00:00Z'],
    ['from', 'from=2030-03-05T10:00:00Z&to=2030-03-05T09:00:00Z'],
    ['from', 'from=2030-03-05T09:00:00.001Z'],
    ['to', 'to=yesterday'],
    ['bucket', 'bucket=1w'],
    ['bucket', 'bucket=RAW'],
    ['bucket', 'bucket='],
    ['agg', 'agg=median'],
    ['agg', 'agg=AVG'],
    ['agg', 'agg=avg&agg=avg'],
    ['page', 'page=0'],
    ['page', 'page=1000001'],
    ['page', 'page=1e3'],
    ['limit', 'limit=0'],
    ['limit', 'limit=1001'],
    ['limit', 'limit=-1'],
    ['limit', 'limit=20abc'],
    ['limit', 'limit=20&limit=20'],
  ])('the parameter %s is refused in %s [C-3.5]', async ([name, query], { ask }) => {
    await expectInvalid(await ask(query), name);
  });

  it.for<[string, number, number]>([
    ['raw', 7, 1],
    ['1m', 7, 1],
    ['5m', 92, 7],
    ['15m', 92, 7],
    ['1h', 732, 92],
    ['1d', 3_660, 732],
  ])(
    'bucket %s covers at most %i days of one metric, or %i of all [C-4.5]',
    async ([bucket, one, all], { ask }) => {
      for (const [days, metric] of [
        [one, '&metric=a'],
        [all, ''],
      ] as const) {
        const at = (ms: number) => new Date(START_MS - ms).toISOString();
        const query = (ms: number) => `bucket=${bucket}&from=${at(ms)}&to=${at(0)}${metric}`;
        expect((await bodyOf<{ data: unknown[] }>(await ask(query(days * DAY)), 200)).data).toEqual([]);
        const response = await ask(query(days * DAY + 1));
        const { details } = await expectError(response, 400, 'VALIDATION_ERROR');
        expect(details).toEqual([
          expect.stringMatching(new RegExp(`^to: the range is longer than ${days} days; .* wider bucket`)),
        ]);
      }
    },
  );

  it('an id that is no UUID gets INVALID_UUID [C-10]', async ({ team, deviceId }) => {
    for (const id of ['x', `${deviceId}0`, '%27', deviceId.replaceAll('-', '')])
      await expectError(await team.viewer.call(`/telemetry/${id}`), 400, 'INVALID_UUID');
    expect((await team.viewer.call(`/telemetry/${deviceId.toUpperCase()}`)).status).toBe(200);
  });
});
