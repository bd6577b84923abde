/** GET /telemetry/{deviceId}: queries that are refused, each by the name of what is wrong [C-3.5], [C-4.5]. */
import { beforeAll, describe, expect, it } from 'vitest';
import { createTeamAtStart, newDeviceIn } from '../../support/workerd/devices.ts';
import { bodyOf, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';
import { DAY, holdClock, START_MS } from '../../support/workerd/site-clock.ts';

let team: Team;
let deviceId: string;

beforeAll(async () => {
  team = await createTeamAtStart();
  deviceId = await newDeviceIn(team, 'PENDING');
});

holdClock();

function ask(query: string): Promise<Response> {
  return team.viewer.call(`/telemetry/${deviceId}?${query}`);
}

describe('a query that cannot be answered', () => {
  it.each([
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
  ])('is refused by name: %s in %s [C-3.5]', async (name, query) => {
    const response = await ask(query);
    const { details } = await expectError(response, 400, 'VALIDATION_ERROR');
    expect(details).toEqual([expect.stringMatching(new RegExp(`^${name}: `))]);
  });

  it.each([
    ['raw', 7, 1],
    ['1m', 7, 1],
    ['5m', 92, 7],
    ['15m', 92, 7],
    ['1h', 732, 92],
    ['1d', 3_660, 732],
  ])('of %s asks for more than %i days of one metric, or %i of all [C-4.5]', async (bucket, one, all) => {
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
        expect.stringMatching(new RegExp(`^to: at most ${days} days .* wider bucket`)),
      ]);
    }
  });

  it('has an id that is no UUID: INVALID_UUID [C-10]', async () => {
    for (const id of ['x', `${deviceId}0`, '%27', deviceId.replaceAll('-', '')])
      await expectError(await team.viewer.call(`/telemetry/${id}`), 400, 'INVALID_UUID');
    expect((await team.viewer.call(`/telemetry/${deviceId.toUpperCase()}`)).status).toBe(200);
  });
});
