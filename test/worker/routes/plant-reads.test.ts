/** What members read of a plant with a session: the same answers as partners get with a key [C-2.6]. */
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';

const ABSENT = '11111111-1111-4111-8111-111111111111';
const DAY = 'from=2030-03-05T00:00:00Z&to=2030-03-06T00:00:00Z';
const READS = [
  'commands?pageSize=5',
  'commands?pageSize=5&at=2030-03-05T00:00:00Z',
  `schedules?${DAY}`,
  `telemetry?metric=gridPowerKw&${DAY}`,
  'telemetry/latest',
];

const it = test.extend('setpoint', async ({ team, plantId }) => {
  const key = await team.newKey(['vcp:read']);
  return { key, plantId };
});

describe('a read of a plant', () => {
  it.for(READS)(
    '%s answers a VIEWER as it answers a key of a partner [C-2.6]',
    async (read, { team, setpoint }) => {
      const { key, plantId } = setpoint;
      const byKey = await key.read<Record<string, unknown>>(`/vcp/sites/${plantId}/${read}`);
      const byMember = await team.viewer.read<Record<string, unknown>>(`/plants/${plantId}/${read}`);
      // Each answer of the latest telemetry is a message of its own.
      for (const answer of [byKey, byMember])
        for (const name of ['messageId', 'timestamp']) delete answer[name];
      expect(byMember).toEqual(byKey);
      expect(Object.keys(byMember).length).toBeGreaterThan(0);
    },
  );

  it.for(READS)(
    '%s of a foreign plant gets the same 404 as one of an absent plant [C-1.3]',
    async (read, { team, other }) => {
      const foreign = await other.newPlant();
      const texts = [foreign.id, ABSENT].map(async (id) => {
        const response = await team.viewer.call(`/plants/${id}/${read}`);
        await expectError(response.clone(), 404, 'PLANT_NOT_FOUND');
        return await response.text();
      });
      expect(new Set(await Promise.all(texts)).size).toBe(1);
    },
  );

  it.for(READS)(
    '%s needs a session: a key gets 401, and a wrong id 400 [C-10]',
    async (read, { team, setpoint }) => {
      const { key, plantId } = setpoint;
      await expectError(await key.call(`/plants/${plantId}/${read}`), 401, 'UNAUTHORIZED');
      await expectError(await team.viewer.call(`/plants/x/${read}`), 400, 'INVALID_UUID');
    },
  );

  it('gets 400 with a range that ends before it begins, or an unknown parameter [C-10]', async ({
    team,
    setpoint,
  }) => {
    const { plantId } = setpoint;
    const wrong = [
      'commands?at=yesterday',
      'commands?at=2030-03-05',
      'commands?at=',
      'schedules?from=2030-03-06T00:00:00Z&to=2030-03-05T00:00:00Z',
      'telemetry?metric=a&from=2030-03-06T00:00:00Z&to=2030-03-05T00:00:00Z',
      'commands?limit=2',
    ];
    for (const read of wrong)
      await expectError(await team.viewer.call(`/plants/${plantId}/${read}`), 400, 'VALIDATION_ERROR');
  });
});
