/** Explain and timeline over REST: who sees what of a command [C-13.2], [C-13.3]. */
import { bodyOf } from '#workerd/client.ts';
import { messageOf } from '#workerd/links.ts';
import { setScene } from '#workerd/scene.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import { createKey, createPlant } from '#workerd/world.ts';
import type { Explanation, PlanChange } from '../../../protocol/explain.ts';
import type { CommandAnswer } from '../../../protocol/rest-publish.ts';
import type { TimelineStep } from '../../../protocol/timeline.ts';

/** A plant with a setpoint of one of two partners. */
const it = test.extend('scene', async ({ ownTeam: { organization } }) => {
  const { plant, key: client } = await setScene({ organization, plant: true, key: true });
  const other = await createKey(organization, { partnerId: 'another' });
  const body = messageOf(organization, client, plant.id, 'site-setpoint', {
    ...{ type: 'POWER', targetValueKw: 20, direction: 'IMPORT', includeConsumption: true, priority: 'HIGH' },
    validFrom: new Date().toISOString(),
  });
  const path = `/vcp/sites/${plant.id}`;
  const { commandId } = await bodyOf<CommandAnswer>(await client.post(`${path}/commands`, body), 200);
  return { plant, path, client, other, commandId };
});

describe('a command of a key', () => {
  it('has its id in the answers to its partner and to members, and in none to another partner', async ({
    ownTeam: { viewer, id: org },
    scene: { plant, path, client, other, commandId },
  }) => {
    const range = `from=${new Date(Date.now() - 60_000).toISOString()}&to=${new Date(Date.now() + 60_000).toISOString()}`;
    const own = await client.read<Explanation>(`${path}/explain`);
    expect(own.target).toMatchObject({ level: 'HIGH', commandId, kw: 20 });
    const { changes } = await client.read<{ changes: PlanChange[] }>(`${path}/explain?${range}`);
    expect(changes.map((change) => change.commandId)).toContain(commandId);
    const { command } = await client.read<{ command: unknown }>(`${path}/commands/${commandId}/timeline`);
    expect(command).toMatchObject({ id: commandId });
    const theirs = await other.read<Explanation>(`${path}/explain`);
    expect(theirs.target).toMatchObject({ level: 'HIGH', commandId: null, kw: null });
    const all = [theirs, await other.read(`${path}/explain?${range}`)];
    expect(JSON.stringify(all)).not.toContain(commandId);
    await expectError(await other.call(`${path}/commands/${commandId}/timeline`), 404, 'NOT_FOUND');
    const ofPlant = `/plants/${plant.id}`;
    const shown = await viewer.call(`${ofPlant}/explain`, { org });
    expect(await shown.json()).toMatchObject({ target: { commandId, kw: 20 } });
    const life = await viewer.call(`${ofPlant}/commands/${commandId}/timeline`, { org });
    expect(await life.json()).toMatchObject({ command: { id: commandId } });
  });
});

describe('the timeline of a command', () => {
  it('says when each event was stored, and when a client acknowledged it [C-13.2]', async ({ ownTeam }) => {
    const { organization, viewer, id: org } = ownTeam;
    const { plant, key, partner } = await setScene({ organization, plant: true, consumes: 'event.status' });
    const body = messageOf(organization, key, plant.id, 'mode', { mode: 'NONE' });
    const sent = await key.post(`/vcp/sites/${plant.id}/commands`, body);
    const { commandId } = (await sent.json()) as CommandAnswer;
    const [{ lease = 0 } = {}] = await partner.delivered(1);
    partner.link.send({ kind: 'settle', outcome: 'ack', leases: [lease] });
    await partner.quiet();
    const events = async () => {
      const path = `/vcp/sites/${plant.id}/commands/${commandId}/timeline`;
      const { steps } = await key.read<{ steps: TimelineStep[] }>(path);
      return steps.filter(({ step }) => step.startsWith('EVENT_'));
    };
    await expect.poll(async () => (await events()).length, { timeout: 5_000 }).toBe(2);
    expect((await events()).map(({ step, reason, by }) => [step, reason, by]).sort()).toEqual([
      ['EVENT_DELIVERED', 'acknowledgement', `queue ${partner.queueName('event.status')}`],
      ['EVENT_STORED', 'acknowledgement', undefined],
    ]);
    const shown = await viewer.call(`/plants/${plant.id}/commands/${commandId}/timeline`, { org });
    const { steps } = (await shown.json()) as { steps: TimelineStep[] };
    expect(steps.filter(({ step }) => step.startsWith('EVENT_'))).toHaveLength(2);
    const times = steps.map(({ at }) => at);
    expect(times).toEqual([...times].sort());
  });

  it('has no events for a command of a person, because no key gets them', async ({ ownTeam }) => {
    const { organization, operator, id: org } = ownTeam;
    const plant = await createPlant(organization);
    const sent = await operator.post(
      `/plants/${plant.id}/commands`,
      { family: 'emergency', payload: { type: 'HOLD' }, idempotencyKey: 'one' },
      { org },
    );
    const { commandId } = (await sent.json()) as CommandAnswer;
    const shown = await operator.call(`/plants/${plant.id}/commands/${commandId}/timeline`, { org });
    const { steps } = (await shown.json()) as { steps: TimelineStep[] };
    expect(steps.map(({ step }) => step)).toContain('ACKNOWLEDGED');
    expect(steps.filter(({ step }) => step.startsWith('EVENT_'))).toEqual([]);
  });
});

describe('the time of an explanation', () => {
  it('is a moment or a range: anything else gets 400', async ({ scene: { path, client } }) => {
    const at = new Date().toISOString();
    for (const wrong of ['at=now', `at=${at}&from=${at}`, `from=${at}`, `to=${at}`, `from=${at}&to=${at}`])
      await expectError(await client.call(`${path}/explain?${wrong}`), 400, 'VALIDATION_ERROR');
  });
});
