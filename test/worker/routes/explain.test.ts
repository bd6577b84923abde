/** Explain and timeline over REST: who sees what of a command [C-13.2], [C-13.3]. */
import { KeyClient } from '#workerd/client.ts';
import { publishFrame } from '#workerd/links.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import { createKey, createPlant, LIMITED } from '#workerd/world.ts';
import type { Explanation, PlanChange } from '../../../protocol/explain.ts';
import type { CommandAnswer } from '../../../protocol/rest-publish.ts';

/** A plant with a setpoint of one of two keys. */
const it = test.extend('scene', async ({ ownTeam }) => {
  const { organization } = ownTeam;
  const plant = await createPlant(organization, { config: LIMITED });
  const [sender, other] = [await createKey(organization), await createKey(organization)];
  const { routingKey, body: message } = publishFrame(organization, sender, plant.id, 'site-setpoint', {
    ...{ type: 'POWER', targetValueKw: 20, direction: 'IMPORT', includeConsumption: true, priority: 'HIGH' },
    validFrom: new Date().toISOString(),
  });
  const path = `/vcp/sites/${plant.id}`;
  const client = new KeyClient(sender);
  const answer = await client.post(`${path}/commands`, { routingKey, message });
  const { commandId } = (await answer.json()) as CommandAnswer;
  return { plant, path, client, other: new KeyClient(other), commandId };
});

describe('a command of a key', () => {
  it('has its id in the answers to that key and to members, and in none to another key', async ({
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

describe('the time of an explanation', () => {
  it('is a moment or a range: anything else gets 400', async ({ scene: { path, client } }) => {
    const at = new Date().toISOString();
    for (const wrong of ['at=now', `at=${at}&from=${at}`, `from=${at}`, `to=${at}`, `from=${at}&to=${at}`])
      await expectError(await client.call(`${path}/explain?${wrong}`), 400, 'VALIDATION_ERROR');
  });
});
