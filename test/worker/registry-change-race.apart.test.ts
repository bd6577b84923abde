/** A Vhost that starts while a change is committed knows the change when its request is answered [C-2.3]. */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { ackOf, Partner, setpoint } from '#workerd/partner.ts';
import { changesOf } from '#workerd/registry-changes.ts';
import { expect, test } from '#workerd/worker-test.ts';
import { createPlant } from '#workerd/world.ts';

const COMMIT = /insert into "registry_changes"/i;

const it = test.extend('plant', ({ team }) => createPlant(team.organization));

/** Runs once, just before the next change is committed; its targets have been looked up by then. */
function beforeCommit(work: () => Promise<void>): void {
  const database = Object.getPrototypeOf(env.DB) as D1Database;
  const { batch } = database;
  let isRun = false;
  vi.spyOn(database, 'batch').mockImplementation(async function (this: D1Database, statements) {
    const texts = (statements as unknown as { statement: string }[]).map(({ statement }) => statement);
    if (!isRun && texts.some((text) => COMMIT.test(text))) {
      isRun = true;
      await work();
    }
    return await batch.call(this, statements);
  });
}

it('a Vhost that starts just before a setting is committed obeys the setting when its PATCH is answered [C-7.2]', async ({
  team,
  plant,
}) => {
  const unsigned = async (partner: Partner) =>
    (await ackOf(partner, partner.command(plant.id, 'site-setpoint', setpoint(), { signingKey: null })))
      .status;
  let partner: Partner | undefined;
  beforeCommit(async () => {
    partner = await Partner.connect(team.organization, await team.newKey());
    await partner.consume('event.status');
    expect(await unsigned(partner)).toBe('QUEUED');
  });
  const settings = { requireSignedCommands: true };
  expect((await team.orgAdmin.patch(`/organizations/${team.id}`, { settings })).status).toBe(200);
  expect(partner && (await unsigned(partner))).toBe('REJECTED');
  expect(await changesOf(team.id)).toEqual([]);
});
