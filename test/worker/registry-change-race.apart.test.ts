/** Who begins while a change is made is not forgotten: it knows the change when that is answered [C-2.3]. */
import { env } from 'cloudflare:workers';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { changesOf, organizationOf } from '../support/workerd/fleet.ts';
import { eventOf, Partner, setpoint } from '../support/workerd/partner.ts';
import { createTeam, type Team } from '../support/workerd/people.ts';
import { callRoute } from '../support/workerd/routes.ts';
import { createKey, createPlant, type Plant } from '../support/workerd/world.ts';

const COMMIT = /insert into "registry_changes"/i;

let team: Team;
let plant: Plant;

beforeEach(async () => {
  team = await createTeam();
  plant = await createPlant(organizationOf(team));
});

afterEach(() => {
  vi.restoreAllMocks();
});

/** Runs once, when the next change is about to be committed: what it is to be told to has been looked up by then. */
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

async function connect(): Promise<Partner> {
  const organization = organizationOf(team);
  const partner = await Partner.connect(organization, await createKey(organization));
  await partner.consume('event.status');
  return partner;
}

/** How an unsigned setpoint is acknowledged. */
async function publishUnsigned(partner: Partner): Promise<unknown> {
  const before = partner.deliveries('event.status').length;
  const unsigned = partner.command(plant.id, 'site-setpoint', setpoint(), { signingKey: null });
  expect(await partner.ask(unsigned)).toMatchObject({ kind: 'stored' });
  const ack = (await partner.delivered(before + 1, 'event.status')).at(-1);
  return ack ? eventOf(ack).payload.status : undefined;
}

it('a partner whose key begins just before a setting is committed is held to it with the answer [C-7.2]', async () => {
  let partner: Partner | undefined;
  beforeCommit(async () => {
    partner = await connect();
    expect(await publishUnsigned(partner)).toBe('QUEUED');
  });
  const headers = { authorization: `Bearer ${team.orgAdmin.accessToken}` };
  const body = { settings: { requireSignedCommands: true } };
  const answer = await callRoute({ method: 'PATCH' }, `/api/v1/organizations/${team.id}`, headers, body);
  expect(answer.status).toBe(200);
  expect(partner && (await publishUnsigned(partner))).toBe('REJECTED');
  expect(await changesOf(team.id)).toEqual([]);
});
