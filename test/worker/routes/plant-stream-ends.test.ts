/** A plant's stream ends within a second of its session's end, and one person has a share of the streams [C-15.4]. */
import { evictDurableObject } from 'cloudflare:test';
import { vi } from 'vitest';
import { bodyOf } from '#workerd/client.ts';
import { StreamClient } from '#workerd/event-streams.ts';
import { Mailbox } from '#workerd/mailbox.ts';
import { operator } from '#workerd/operator.ts';
import { PASSWORD, Person, refresh } from '#workerd/people.ts';
import { setScene } from '#workerd/scene.ts';
import { type Submitter, submission } from '#workerd/site-submissions.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import { createPlant, siteOf } from '#workerd/world.ts';
import { LIMIT } from '../../../protocol/limits.ts';

/** How long a stream may outlive its session. */
const IN_TIME_MS = 1_000;
/** Streams of one person: of a plant, and in all. */
const OF_PLANT = 5;
const OF_PERSON = 20;
const NEXT_PASSWORD = 'another horse battery 7';

interface Watched {
  team: Team;
  plantId: string;
  partner: Submitter;
  open(by?: { accessToken: string }, plantId?: string, query?: string): Promise<StreamClient>;
  /** A request that opens a stream, whose answer may be a refusal. */
  ask(by: Person, plantId?: string, query?: string): Promise<Response>;
}

async function newPlant(team: Team): Promise<string> {
  return (await createPlant(team.organization)).id;
}

async function scene(team: Team): Promise<Watched> {
  const { organization } = team;
  const { siteId: plantId, partner } = await setScene({ organization, plant: true, key: true });
  const headers = { 'x-org-id': team.id };
  return {
    team,
    plantId,
    partner,
    open: (by = team.viewer, id = plantId, query = '') =>
      StreamClient.open(by, `/plants/${id}/stream${query}`, headers),
    ask: (by, id = plantId, query = '') => by.call(`/plants/${id}/stream${query}`, { headers }),
  };
}

const it = test.extend('watched', ({ ownTeam }) => scene(ownTeam));

/** Whether a stream ends within the time. Events before its end do not matter. */
async function fate(stream: StreamClient): Promise<'ended' | 'open'> {
  const end = async () => {
    while (await stream.next());
    return 'ended' as const;
  };
  return await Promise.race([end(), scheduler.wait(IN_TIME_MS).then(() => 'open' as const)]);
}

/** Whether streams still get events: the next one of each is of a command that is submitted now. */
async function expectLive(streams: StreamClient | StreamClient[], { partner }: Watched): Promise<void> {
  const sent = submission('site-setpoint', {});
  await partner.submit(sent);
  for (const stream of [streams].flat()) {
    const [event] = await stream.take(1);
    expect(JSON.parse(event?.data ?? '')).toMatchObject({ correlationId: sent.messageId });
  }
}

async function ok(response: Promise<Response>): Promise<void> {
  const { status } = await response;
  expect([200, 202]).toContain(status);
}

/** What ends a session of the viewer, who has another one. */
const ENDS: [what: string, end: (viewer: Person, other: Person, watched: Watched) => Promise<void>][] = [
  ['its logout', (viewer) => ok(viewer.post('/auth/logout'))],
  [
    'the end of this session from another one',
    async (_, other) => {
      const { data } = await other.read<{ data: { id: string; current: boolean }[] }>('/auth/sessions');
      for (const { id, current } of data) if (!current) await ok(other.delete(`/auth/sessions/${id}`));
    },
  ],
  ['the end of all other sessions', (_, other) => ok(other.delete('/auth/sessions'))],
  [
    'a change of the password',
    (_, other) => {
      const body = { currentPassword: PASSWORD, newPassword: NEXT_PASSWORD };
      return ok(other.post('/auth/change-password', body));
    },
  ],
  [
    'a reset of the password',
    async ({ email }) => {
      const mailbox = new Mailbox();
      await ok(mailbox.call('POST', '/auth/password-reset', { email }));
      const body = { token: mailbox.last(email).token, newPassword: NEXT_PASSWORD };
      await ok(mailbox.call('POST', '/auth/password-reset/confirm', body));
    },
  ],
  [
    'the second use of its refresh token',
    async ({ refreshToken }) => {
      expect((await refresh(refreshToken)).status).toBe(200);
      expect((await refresh(refreshToken)).status).toBe(401);
    },
  ],
  [
    'a login that is one more than a person may have',
    async (viewer) => {
      // Two sessions are open; the login deletes the oldest.
      for (let count = 2; count < LIMIT.sessionsPerUser; count++) await viewer.newSession();
      await Person.logIn(viewer.email);
    },
  ],
  [
    'the removal of its member',
    ({ id }, _, { team }) => ok(team.admin.delete(`/organizations/${team.id}/members/${id}`)),
  ],
  [
    'the leave of its member',
    ({ id }, other, { team }) => ok(other.delete(`/organizations/${team.id}/members/${id}`)),
  ],
  [
    'the deletion of its account',
    async ({ email }) => ok(operator.post('/platform/users/delete', { email })),
  ],
];

describe('the stream of a plant', () => {
  it.for(ENDS)(
    'ends within a second of %s, and those of others go on [C-15.4]',
    async ([, end], { watched }) => {
      const { viewer, operator: colleague } = watched.team;
      const other = await viewer.newSession();
      const stream = await watched.open(viewer);
      const stays = await watched.open(colleague);
      await end(viewer, other, watched);
      expect(await fate(stream)).toBe('ended');
      await expectLive(stays, watched);
    },
  );

  it('ends within a second of the suspension of the organization, for everybody [C-15.4]', async ({
    watched,
  }) => {
    const { id, members } = watched.team;
    const streams = await Promise.all(members.map((member) => watched.open(member)));
    await ok(operator.post(`/platform/organizations/${id}/suspend`, { reason: 'the contract has ended' }));
    expect(await Promise.all(streams.map(fate))).toEqual(members.map(() => 'ended'));
  });

  it('ends within a second of the deletion of the plant, for everybody [C-15.4]', async ({ watched }) => {
    const { team } = watched;
    const { id } = await team.newPlant();
    const streams = await Promise.all(team.members.map((member) => watched.open(member, id)));
    await ok(team.admin.delete(`/plants/${id}`));
    expect(await Promise.all(streams.map(fate))).toEqual(team.members.map(() => 'ended'));
  });

  it('ends within a second of the end of the support session [C-15.4]', async ({ watched }) => {
    const { team } = watched;
    const started = operator.post(`/platform/organizations/${team.id}/support`, { reason: 'Ticket 4711' });
    const { id, token } = await bodyOf<{ id: string; token: string }>(await started, 201);
    const stream = await watched.open({ accessToken: token });
    const stays = await watched.open(team.viewer);
    await ok(team.orgAdmin.delete(`/organizations/${team.id}/support-sessions/${id}`));
    expect(await fate(stream)).toBe('ended');
    await expectLive(stays, watched);
  });

  it('ends within a second when its object has left memory before [C-15.4]', async ({ watched }) => {
    const { viewer } = watched.team;
    const stream = await watched.open(viewer);
    await evictDurableObject(siteOf(watched.plantId));
    await ok(viewer.post('/auth/logout'));
    expect(await fate(stream)).toBe('ended');
  });

  it('ends on each plant and in each of its windows [C-15.4]', async ({ watched }) => {
    const { viewer } = watched.team;
    const second = await newPlant(watched.team);
    const streams = [await watched.open(), await watched.open(), await watched.open(viewer, second)];
    await ok(viewer.post('/auth/logout'));
    expect(await Promise.all(streams.map(fate))).toEqual(['ended', 'ended', 'ended']);
  });

  it('goes on after the end of another session of its person [C-15.4]', async ({ watched }) => {
    const other = await watched.team.viewer.newSession();
    const [ending, staying] = [await watched.open(other), await watched.open()];
    await ok(other.post('/auth/logout'));
    expect(await fate(ending)).toBe('ended');
    await expectLive(staying, watched);
  });

  it('goes on when its member leaves another organization, or gets another role [C-15.4]', async ({
    watched,
    other,
  }) => {
    const { team } = watched;
    await other.join(team.viewer, 'VIEWER');
    const foreignPlant = await newPlant(other);
    const headers = { 'x-org-id': other.id };
    const foreign = await StreamClient.open(team.viewer, `/plants/${foreignPlant}/stream`, headers);
    const stream = await watched.open();
    await ok(other.admin.delete(`/organizations/${other.id}/members/${team.viewer.id}`));
    expect(await fate(foreign)).toBe('ended');
    const path = `/organizations/${team.id}/members/${team.viewer.id}`;
    for (const role of ['OPERATOR', 'VIEWER']) await ok(team.admin.patch(path, { role }));
    await expectLive(stream, watched);
  });
});

describe('the streams of one person', () => {
  async function expectFull(response: Promise<Response>, most: number): Promise<void> {
    const answer = await response;
    // The body of a stream that is open has no end.
    expect(answer.status).toBe(409);
    const { message } = await expectError(answer, 409, 'CONFLICT');
    expect(message).toMatch(new RegExp(`\\b${most}\\b`));
  }

  /** Leaves, and waits until another stream has the place. */
  async function leave(streams: StreamClient[], open: () => Promise<Response>): Promise<void> {
    for (const stream of streams) stream.leave();
    await vi.waitFor(async () => {
      const { status, body } = await open();
      await body?.cancel();
      expect(status).toBe(200);
    });
  }

  it('are at most five of a plant, whatever session opens them [C-15.4]', async ({ watched }) => {
    const { viewer } = watched.team;
    const other = await viewer.newSession();
    const streams: StreamClient[] = [];
    for (let count = 0; count < OF_PLANT; count++)
      streams.push(await watched.open(count % 2 === 0 ? viewer : other));
    for (const by of [viewer, other]) await expectFull(watched.ask(by), OF_PLANT);
    streams.push(await watched.open(watched.team.operator));
    streams.push(await watched.open(viewer, await newPlant(watched.team)));
    await expectLive(streams.slice(0, OF_PLANT), watched);
    await leave(streams, () => watched.ask(viewer));
  });

  it('are at most five of a plant when they are opened at the same time [C-15.4]', async ({ watched }) => {
    const asked = await Promise.all(
      Array.from({ length: OF_PLANT + 4 }, () => watched.ask(watched.team.viewer)),
    );
    const statuses = asked.map(({ status }) => status).toSorted();
    expect(statuses).toEqual([...Array(OF_PLANT).fill(200), ...Array(4).fill(409)]);
    for (const { body } of asked) await body?.cancel();
  });

  it('are at most twenty in all, also of several organizations [C-15.4]', async ({ watched, other }) => {
    const { team } = watched;
    await other.join(team.viewer, 'VIEWER');
    const theirs = await newPlant(other);
    const headers = { 'x-org-id': other.id };
    const streams: StreamClient[] = [];
    for (let count = 0; count < OF_PLANT; count++)
      streams.push(await StreamClient.open(team.viewer, `/plants/${theirs}/stream`, headers));
    for (let plant = 0; plant < OF_PERSON / OF_PLANT - 1; plant++) {
      const plantId = await newPlant(team);
      for (let count = 0; count < OF_PLANT; count++) streams.push(await watched.open(team.viewer, plantId));
    }
    expect(streams).toHaveLength(OF_PERSON);
    await expectFull(watched.ask(team.viewer), OF_PERSON);
    (await watched.open(team.operator)).leave();
    await leave(streams.slice(0, 1), () => watched.ask(team.viewer));
  });

  it('are not taken by requests that open none [C-15.4]', async ({ watched }) => {
    const { viewer } = watched.team;
    for (let count = 0; count < OF_PLANT; count++) {
      const wrong = watched.ask(viewer, watched.plantId, '?after=999999999999999');
      await expectError(await wrong, 400, 'VALIDATION_ERROR');
      const unknown = watched.ask(viewer, crypto.randomUUID());
      await expectError(await unknown, 404, 'PLANT_NOT_FOUND');
    }
    const streams: StreamClient[] = [];
    for (let count = 0; count < OF_PLANT; count++) streams.push(await watched.open());
    await expectFull(watched.ask(viewer), OF_PLANT);
  });
});
