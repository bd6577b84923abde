/** The events of a plant as a stream for the people of its organization [C-12.3]. */
import { evictDurableObject, runInDurableObject } from 'cloudflare:test';
import { vi } from 'vitest';
import { StreamClient } from '#workerd/event-streams.ts';
import { connectDevice, telemetryMessage } from '#workerd/links.ts';
import { operator } from '#workerd/operator.ts';
import { Person } from '#workerd/people.ts';
import { setScene } from '#workerd/scene.ts';
import { publish } from '#workerd/site-devices.ts';
import { powerSetpoint, Submitter, submission } from '#workerd/site-submissions.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import { createKey, siteOf } from '#workerd/world.ts';
import { SITE_BOUNDS } from '../../../durable-objects/site/bounds.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { STREAM_HEADER, STREAM_LAST_HEADER, type StreamDown } from '../../../protocol/link/stream.ts';

/** A plant of a team, and a partner whose commands are rejected, each with one acknowledgement. */
async function scene(team: Team) {
  const { plant, partner } = await setScene({ organization: team.organization, plant: true, key: true });
  const path = `/plants/${plant.id}/stream`;
  const headers = { 'x-org-id': team.id };
  const open = (query = '', more: Record<string, string> = {}) =>
    StreamClient.open(team.viewer, `${path}${query}`, { ...headers, ...more });
  return { plant, partner, path, headers, open };
}

const it = test.extend('watched', ({ ownTeam }) => scene(ownTeam));

/** Submits commands that the Site rejects, and returns their messageIds. */
async function reject(partner: Submitter, count = 1): Promise<string[]> {
  const commands = Array.from({ length: count }, () => submission('site-setpoint', {}));
  for (let from = 0; from < count; from += 32) await partner.submit(...commands.slice(from, from + 32));
  return commands.map(({ messageId }) => messageId);
}

function correlationOf({ data }: { data?: string }): string {
  return JSON.parse(data ?? '').correlationId;
}

async function sockets(siteId: string): Promise<number> {
  return await runInDurableObject(siteOf(siteId), (_, state) => state.getWebSockets('stream').length);
}

describe('GET /plants/{id}/stream', () => {
  it('sends the events of all keys and of nobody, in order, without a signature [C-12.3]', async ({
    watched: { plant, partner, open },
    ownTeam,
  }) => {
    const stream = await open();
    const other = new Submitter(plant.id, (await createKey(ownTeam.organization)).id);
    const sent = [...(await reject(partner)), ...(await reject(other)), ...(await reject(partner))];
    const events = await stream.take(3);
    expect(events.map(correlationOf)).toEqual(sent);
    expect(events.map(({ event }) => event)).toEqual(['ack', 'ack', 'ack']);
    const ids = events.map(({ id }) => Number(id));
    expect(ids).toEqual([ids[0], (ids[0] ?? 0) + 1, (ids[0] ?? 0) + 2]);
    const event = JSON.parse(events[0]?.data ?? '');
    expect(event).toMatchObject({ version: '1.1', siteId: plant.id, payload: { status: 'REJECTED' } });
    expect(event).not.toHaveProperty('signature');
  });

  it('sends telemetry, even if no key gets it, and only the wanted type', async ({
    watched: { plant, partner, open },
  }) => {
    const stream = await open('?type=telemetry');
    const link = await connectDevice(plant);
    await reject(partner);
    await publish(link, telemetryMessage(plant.gateway, '{"gridPowerKw":4.25}'));
    const [event] = await stream.take(1);
    expect(event?.event).toBe('telemetry');
    expect(JSON.parse(event?.data ?? '').payload.gridPowerKw).toBe(4.25);
  });

  it('sends an alarm that goes to several keys once', async ({ watched: { partner, open }, ownTeam }) => {
    for (let number = 0; number < 3; number++) await createKey(ownTeam.organization);
    const stream = await open();
    await partner.submit(submission('site-setpoint', powerSetpoint(1_000)));
    await reject(partner);
    const events = await stream.take(3);
    expect(events.map(({ event }) => event)).toEqual(['ack', 'alarm', 'ack']);
    expect(JSON.parse(events[1]?.data ?? '').payload.type).toBe('CONSTRAINT_VIOLATION');
  });

  it('resumes after Last-Event-ID what came while the client was away for a moment', async ({
    watched: { partner, open },
  }) => {
    const first = await open();
    await reject(partner);
    const [event] = await first.take(1);
    first.leave();
    const missed = await reject(partner, 2);
    const again = await open('', { 'last-event-id': event?.id ?? '' });
    expect((await again.take(2)).map(correlationOf)).toEqual(missed);
  });

  it('sends gap to a client that resumes after the object has slept, and not to one that stayed', async ({
    watched: { plant, partner, open },
  }) => {
    const stayed = await open();
    await reject(partner);
    const [event] = await stayed.take(1);
    await evictDurableObject(siteOf(plant.id));
    const [sent] = await reject(partner);
    expect((await stayed.take(1)).map(correlationOf)).toEqual([sent]);
    const again = await open('', { 'last-event-id': event?.id ?? '' });
    const [gap, later] = await again.take(2);
    expect(gap?.event).toBe('gap');
    expect(correlationOf(later ?? {})).toBe(sent);
  });

  it('sends gap to a client that resumes after nobody has watched for a minute', async ({
    watched: { plant, partner, open },
  }) => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
    const first = await open();
    await reject(partner);
    const [event] = await first.take(1);
    first.leave();
    await vi.waitFor(async () => expect(await sockets(plant.id)).toBe(0));
    vi.advanceTimersByTime(61_000);
    await reject(partner);
    const again = await open('', { 'last-event-id': event?.id ?? '' });
    expect((await again.take(1))[0]?.event).toBe('gap');
    const sent = await reject(partner);
    expect((await again.take(1)).map(correlationOf)).toEqual(sent);
  });

  it('keeps a bounded number of events in memory', async ({ watched: { partner, open } }) => {
    const first = await open();
    await reject(partner);
    const [event] = await first.take(1);
    const most = SITE_BOUNDS.plantEvents;
    const sent = await reject(partner, most + 10);
    const again = await open('', { 'last-event-id': event?.id ?? '' });
    const [gap, ...later] = await again.take(most + 1);
    expect(gap?.event).toBe('gap');
    expect(later.map(correlationOf)).toEqual(sent.slice(-most));
  });

  it('ends at the next comment when the member has left, or the session has ended', async ({
    watched: { open },
    ownTeam,
  }) => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const stream = await open();
    await vi.advanceTimersByTimeAsync(LIMIT.streamCommentMs);
    await ownTeam.admin.call(`/organizations/${ownTeam.id}/members/${ownTeam.viewer.id}`, {
      method: 'DELETE',
    });
    await vi.advanceTimersByTimeAsync(LIMIT.streamCommentMs);
    expect(await stream.next()).toBeUndefined();
    expect(stream.comments).toBeGreaterThan(0);
  });

  it('ends at the next comment when the organization is suspended', async ({
    watched: { open },
    ownTeam,
  }) => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const stream = await open();
    await operator.post(`/platform/organizations/${ownTeam.id}/suspend`, { reason: 'test' });
    await vi.advanceTimersByTimeAsync(LIMIT.streamCommentMs);
    expect(await stream.next()).toBeUndefined();
  });

  it('gives a client that has had no event an id from which it resumes', async ({
    watched: { partner, open },
  }) => {
    const first = await open();
    const { begin } = first;
    first.leave();
    const sent = await reject(partner);
    const again = await open('', { 'last-event-id': String(begin) });
    expect((await again.take(1)).map(correlationOf)).toEqual(sent);
  });

  it('keeps events for a minute after the last stream, even if that was open for long without one', async ({
    watched: { plant, partner, open },
  }) => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
    const first = await open();
    await reject(partner);
    const [event] = await first.take(1);
    vi.advanceTimersByTime(120_000);
    first.leave();
    await vi.waitFor(async () => expect(await sockets(plant.id)).toBe(0));
    const sent = await reject(partner);
    const again = await open('', { 'last-event-id': event?.id ?? '' });
    expect((await again.take(1)).map(correlationOf)).toEqual(sent);
  });

  it('says gap to a Worker that asks again after the object has slept and forgotten events', async ({
    watched: { plant, partner },
  }) => {
    const headers = { upgrade: 'websocket', [STREAM_HEADER]: JSON.stringify({ siteIds: [plant.id] }) };
    const { webSocket, headers: answer } = await siteOf(plant.id).fetch('https://site/stream', { headers });
    const link = webSocket as WebSocket;
    link.accept();
    const pages: StreamDown[] = [];
    link.addEventListener('message', ({ data }) => pages.push(JSON.parse(String(data))));
    // A page of one event only.
    link.send(JSON.stringify({ after: Number(answer.get(STREAM_LAST_HEADER)), chars: 1 }));
    await reject(partner);
    await vi.waitFor(() => expect(pages).toHaveLength(1));
    await reject(partner, 2);
    await evictDurableObject(siteOf(plant.id));
    link.send(JSON.stringify({ after: pages[0]?.next, chars: 1 }));
    await vi.waitFor(() => expect(pages).toHaveLength(2));
    expect(pages[1]?.firstKept).toBeGreaterThan(pages[0]?.next ?? 0);
  });

  it('refuses the stream over the limit of the plant, and frees it when clients leave', async ({
    watched: { plant, path, headers, open },
    ownTeam,
  }) => {
    // One person may have five of them [C-15.4].
    const people = await Promise.all(
      Array.from({ length: LIMIT.streamsPerPlant / 5 }, () => Person.register()),
    );
    for (const person of people) await ownTeam.join(person, 'VIEWER');
    const streams = await Promise.all(
      people.flatMap((person) => Array.from({ length: 5 }, () => StreamClient.open(person, path, headers))),
    );
    const refused = await ownTeam.viewer.call(path, { headers });
    expect(await expectError(refused, 409, 'CONFLICT')).toMatchObject({
      message: expect.stringContaining(`${LIMIT.streamsPerPlant} open streams`),
    });
    for (const stream of streams) stream.leave();
    await vi.waitFor(async () => expect(await sockets(plant.id)).toBe(0));
    (await open()).leave();
  });

  it('names the newest sequence to a cursor that is ahead of it, by the name that the client used [C-12.3]', async ({
    watched: { plant, partner, path, headers, open },
    ownTeam,
  }) => {
    const stream = await open();
    await reject(partner, 2);
    const newest = Number((await stream.take(2))[1]?.id);
    const ahead = `${newest + 1}`;
    const fault = async (query: string, more: Record<string, string> = {}) => {
      const answer = await ownTeam.viewer.call(`${path}${query}`, { headers: { ...headers, ...more } });
      return String((await expectError(answer, 400, 'VALIDATION_ERROR')).details);
    };
    expect(await fault(`?after=${ahead}`)).toMatch(new RegExp(`^after: ${ahead} .*\\b${newest}\\b`));
    expect(await fault('', { 'last-event-id': ahead })).toMatch(
      new RegExp(`^Last-Event-ID: ${ahead} .*\\b${newest}\\b`),
    );
    await vi.waitFor(async () => expect(await sockets(plant.id)).toBe(1));
  });

  it('is not for strangers, keys and other organizations', async ({
    watched: { path, headers },
    other,
    ownTeam,
  }) => {
    const foreign = await other.viewer.call(path, { headers: { 'x-org-id': other.id } });
    await expectError(foreign, 404, 'PLANT_NOT_FOUND');
    await expectError(await (await ownTeam.newKey()).call(path), 401, 'UNAUTHORIZED');
    for (const query of ['?after=x', '?after=999999999999999', '?type=none', '?siteId=x'])
      await expectError(await ownTeam.viewer.call(`${path}${query}`, { headers }), 400, 'VALIDATION_ERROR');
    const rubbish = { ...headers, 'last-event-id': 'x' };
    await expectError(await ownTeam.viewer.call(path, { headers: rubbish }), 400, 'VALIDATION_ERROR');
  });
});
