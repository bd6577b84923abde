/** The events of a key over HTTPS: pages of its journal, and streams [C-12.2], [C-12.3]. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { vi } from 'vitest';
import { StreamClient } from '#workerd/event-streams.ts';
import { operator } from '#workerd/operator.ts';
import { hand, outboxEvents, passingEvents, range } from '#workerd/outbox-events.ts';
import { vhostRows } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { describe, expect, expectError, expectInvalid, it } from '#workerd/worker-test.ts';
import { createKey, createOrganization, createPlant, type Key, type Plant, vhostOf } from '#workerd/world.ts';
import { LIMIT } from '../../../protocol/limits.ts';

interface Page {
  events: { sequence: number; routingKey: string; event: string }[];
  next: number;
  firstKept: number;
  gap?: true;
}

function numbersOf({ events }: Page): number[] {
  return events.map(({ event }) => JSON.parse(event).payload.n);
}

function numberOf({ data }: { data?: string }): number {
  return JSON.parse(data ?? '').payload.n;
}

/** The number of stream sockets of a key's Vhost. */
async function socketsOf(key: Key): Promise<number> {
  return await runInDurableObject(vhostOf(key.id), (_, state) => state.getWebSockets('stream').length);
}

describe('GET /vcp/events', () => {
  it('answers pages of events, each text as it was signed [C-12.2]', async ({ key, plant, organization }) => {
    await hand(key, plant.id, 1, 5);
    const first = await key.read<Page>('/vcp/events?limit=3');
    expect(numbersOf(first)).toEqual([1, 2, 3]);
    expect(first).toEqual({
      events: first.events.map(({ event }, index) => ({
        ...{ sequence: first.firstKept + index, routingKey: `${organization.slug}.event.command.ack`, event },
      })),
      next: first.firstKept + 2,
      firstKept: first.firstKept,
    });
    expect(JSON.parse(first.events[0]?.event ?? '')).toMatchObject({ siteId: plant.id, source: 'sitewire' });
    expect(numbersOf(await key.read<Page>(`/vcp/events?after=${first.next}`))).toEqual([4, 5]);
  });

  it('answers an empty page if there are no events', async ({ key }) => {
    const page = await key.read<Page>('/vcp/events');
    expect(page).toEqual({ events: [], next: page.firstKept - 1, firstKept: page.firstKept });
    expect(await key.read<Page>(`/vcp/events?after=${page.next}`)).toEqual(page);
  });

  it('filters by type and site', async ({ key, organization, plant }) => {
    const other = await createPlant(organization);
    await hand(key, plant.id, 1, 1, { kind: 'alarm' });
    await hand(key, other.id, 2, 1, { kind: 'alarm' });
    await hand(key, plant.id, 3, 1, { kind: 'ack' });
    expect(numbersOf(await key.read<Page>('/vcp/events?type=alarm'))).toEqual([1, 2]);
    expect(numbersOf(await key.read<Page>(`/vcp/events?siteId=${plant.id}`))).toEqual([1, 3]);
    expect(numbersOf(await key.read<Page>(`/vcp/events?siteId=${other.id}&type=ack`))).toEqual([]);
  });

  it('says that events are no longer kept [C-12.2]', async ({ key, plant }) => {
    await hand(key, plant.id, 1, 50, { chars: 2_000 });
    const { firstKept } = await key.read<Page>('/vcp/events');
    await runInDurableObject(vhostOf(key.id), (_, { storage }) => {
      storage.sql.exec('DELETE FROM journal WHERE first = ?', firstKept);
    });
    await evictDurableObject(vhostOf(key.id));
    const page = await key.read<Page>(`/vcp/events?after=${firstKept}`);
    expect(page.gap).toBe(true);
    expect(page.firstKept).toBeGreaterThan(firstKept);
    expect(page.events[0]?.sequence).toBe(page.firstKept);
    expect((await key.read<Page>(`/vcp/events?after=${page.firstKept - 1}`)).gap).toBeUndefined();
  });

  it('is the same for a key that may only read [C-12.1]', async ({ organization, plant }) => {
    const key = await createKey(organization, { scopes: ['vcp:read'] });
    await hand(key, plant.id, 1, 2);
    expect(numbersOf(await key.read<Page>('/vcp/events'))).toEqual([1, 2]);
  });

  it.for([
    ['after', ['x', '-1', '1.5', '', '1e3', '0x10', '9999999999999999', 'null', '٣']],
    ['limit', ['0', '501', 'x', '-1', '1.5', '']],
    ['type', ['', 'acks', 'ACK', 'event.alarm', '__proto__']],
    ['siteId', ['', 'x', '123', '__proto__']],
  ] as const)('refuses %s with a wrong value and stores nothing', async ([name, values], { key }) => {
    for (const path of ['/vcp/events', '/vcp/events/stream']) {
      if (path.endsWith('stream') && name === 'limit') continue;
      for (const value of values)
        await expectInvalid(await key.call(`${path}?${name}=${encodeURIComponent(value)}`), name, value);
    }
    expect(await vhostRows(key, 'SELECT * FROM journal')).toEqual([]);
    expect(await socketsOf(key)).toBe(0);
  });

  it('refuses a sequence from the future, unknown and repeated parameters', async ({ key, plant }) => {
    await hand(key, plant.id, 1, 1);
    const { next } = await key.read<Page>('/vcp/events');
    for (const path of ['/vcp/events', '/vcp/events/stream']) {
      await expectInvalid(await key.call(`${path}?after=${next + 1}`), 'after');
      await expectInvalid(await key.call(`${path}?before=1`), 'before');
      await expectInvalid(await key.call(`${path}?after=1&after=2`), 'after');
    }
  });

  it('names the newest sequence to a cursor that is ahead of the journal, by the name that the client used [C-12.2]', async ({
    key,
    plant,
  }) => {
    const fault = async (answer: Promise<Response>) =>
      String((await expectError(await answer, 400, 'VALIDATION_ERROR')).details);
    const fresh = await key.read<Page>('/vcp/events');
    expect(await fault(key.call(`/vcp/events?after=${fresh.next + 1}`))).toMatch(
      new RegExp(`^after: .*\\b${fresh.next}\\b`),
    );
    await hand(key, plant.id, 1, 3);
    const { next } = await key.read<Page>('/vcp/events');
    expect(numbersOf(await key.read<Page>(`/vcp/events?after=${next}`))).toEqual([]);
    for (const path of ['/vcp/events', '/vcp/events/stream'])
      for (const ahead of [next + 1, 999_999_999_999_999])
        expect(await fault(key.call(`${path}?after=${ahead}`))).toMatch(
          new RegExp(`^after: ${ahead} .*\\b${next}\\b`),
        );
    const headers = { 'last-event-id': `${next + 1}` };
    expect(await fault(key.call('/vcp/events/stream?after=0', { headers }))).toMatch(
      new RegExp(`^Last-Event-ID: ${next + 1} .*\\b${next}\\b`),
    );
    expect(await socketsOf(key)).toBe(0);
  });

  it('answers a foreign site as one that does not exist', async ({ key }) => {
    const foreign = await createPlant(await createOrganization());
    for (const path of ['/vcp/events', '/vcp/events/stream'])
      for (const siteId of [foreign.id, crypto.randomUUID()])
        await expectError(await key.call(`${path}?siteId=${siteId}`), 404, 'SITE_NOT_FOUND');
  });

  it('needs vcp:read; a key that is older than journals has none', async ({ newKey, key }) => {
    for (const path of ['/vcp/events', '/vcp/events/stream']) {
      const other = await newKey({ scopes: ['vcp:connect', 'plants:read'] });
      await expectError(await other.call(path), 403, 'FORBIDDEN');
    }
    await runInDurableObject(vhostOf(key.id), (_, { storage }) => {
      storage.sql.exec("DELETE FROM fact WHERE name = 'key'");
    });
    await evictDurableObject(vhostOf(key.id));
    for (const path of ['/vcp/events', '/vcp/events/stream'])
      await expectError(await key.call(path), 409, 'CONFLICT');
  });
});

describe('GET /vcp/events/stream', () => {
  it('sends the kept events after a sequence, and then each new one [C-12.3]', async ({ key, plant }) => {
    await hand(key, plant.id, 1, 3);
    const stream = await StreamClient.open(key, '/vcp/events/stream?after=0');
    expect(Object.fromEntries(stream.response.headers)).toMatchObject({
      ...{ 'cache-control': 'no-store', 'x-accel-buffering': 'no' },
    });
    const first = await stream.take(3);
    const page = await key.read<Page>('/vcp/events');
    expect(first).toEqual(
      page.events.map(({ sequence, event }) => ({ id: String(sequence), event: 'ack', data: event })),
    );
    await hand(key, plant.id, 4, 1, { kind: 'alarm' });
    const [alarm] = await stream.take(1);
    expect([alarm?.event, numberOf(alarm ?? {})]).toEqual(['alarm', 4]);
  });

  it('begins with the next event if there is no sequence', async ({ key, plant }) => {
    await hand(key, plant.id, 1, 3);
    const stream = await StreamClient.open(key);
    await hand(key, plant.id, 4, 1);
    expect((await stream.take(1)).map(numberOf)).toEqual([4]);
  });

  it('resumes after Last-Event-ID, which goes before `after` [C-12.3]', async ({ key, plant }) => {
    await hand(key, plant.id, 1, 5);
    const first = await StreamClient.open(key, '/vcp/events/stream?after=0');
    const [, second] = await first.take(2);
    first.leave();
    const headers = { 'last-event-id': second?.id ?? '' };
    const again = await StreamClient.open(key, '/vcp/events/stream?after=0', headers);
    expect((await again.take(3)).map(numberOf)).toEqual([3, 4, 5]);
  });

  it.for(['x', '-1', '1.5', '9'.repeat(400), 'null', '1 2'])(
    'refuses the Last-Event-ID %s [C-12.3]',
    async (text, { key }) => {
      const answer = await key.call('/vcp/events/stream', { headers: { 'last-event-id': text } });
      await expectInvalid(answer, 'Last-Event-ID');
      expect(await socketsOf(key)).toBe(0);
    },
  );

  it('sends only events that match its filter', async ({ key, organization, plant }) => {
    const other = await createPlant(organization);
    const stream = await StreamClient.open(key, `/vcp/events/stream?type=alarm&siteId=${plant.id}`);
    await hand(key, plant.id, 1, 1, { kind: 'ack' });
    await hand(key, other.id, 2, 1, { kind: 'alarm' });
    await hand(key, plant.id, 3, 1, { kind: 'alarm' });
    expect((await stream.take(1)).map(numberOf)).toEqual([3]);
  });

  it('says that events are no longer kept, and goes on with the first one that is [C-12.3]', async ({
    key,
    plant,
  }) => {
    await hand(key, plant.id, 1, 50, { chars: 2_000 });
    const { firstKept } = await key.read<Page>('/vcp/events');
    await runInDurableObject(vhostOf(key.id), (_, { storage }) => {
      storage.sql.exec('DELETE FROM journal WHERE first = ?', firstKept);
    });
    await evictDurableObject(vhostOf(key.id));
    const stream = await StreamClient.open(key, `/vcp/events/stream?after=${firstKept}`);
    const [gap, next] = await stream.take(2);
    const kept = JSON.parse(gap?.data ?? '').firstKept;
    expect(gap).toEqual({ id: String(kept - 1), event: 'gap', data: `{"firstKept":${kept}}` });
    expect(next?.id).toBe(String(kept));
  });

  it('sends thousands of events in order to a client that reads slowly', async ({ key, plant }) => {
    for (let batch = 0; batch < 8; batch++) await hand(key, plant.id, 1 + 250 * batch, 250, { chars: 500 });
    const stream = await StreamClient.open(key, '/vcp/events/stream?after=0');
    expect((await stream.take(2_000)).map(numberOf)).toEqual(range(1, 2_000));
  });

  it('leaves its object asleep until there is an event, and goes on after that sleep', async ({
    key,
    plant,
  }) => {
    const stream = await StreamClient.open(key);
    await evictDurableObject(vhostOf(key.id));
    await hand(key, plant.id, 1, 1);
    expect((await stream.take(1)).map(numberOf)).toEqual([1]);
    await evictDurableObject(vhostOf(key.id));
    await hand(key, plant.id, 2, 1);
    expect((await stream.take(1)).map(numberOf)).toEqual([2]);
  });

  it('sends each event once, even if its object sleeps before it has stored how far the stream is', async ({
    key,
    plant,
  }) => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
    const stream = await StreamClient.open(key);
    for (let number = 1; number <= 20; number++) await hand(key, plant.id, number, 1);
    expect((await stream.take(20)).map(numberOf)).toEqual(range(1, 20));
    await evictDurableObject(vhostOf(key.id));
    await hand(key, plant.id, 21, 3);
    expect((await stream.take(3)).map(numberOf)).toEqual([21, 22, 23]);
  });

  it('stores no telemetry for a stream that waits for alarms only [rule 10]', async ({
    organization,
    plant,
  }) => {
    const { key, partner } = await setScene({ organization, partner: 'connected' });
    await partner.consume('event.telemetry', { noAck: true });
    const stream = await StreamClient.open(key, '/vcp/events/stream?type=alarm');
    await vhostOf(key.id).receivePassing(plant.id, passingEvents(1, 1));
    await partner.delivered(1);
    expect(await vhostRows(key, 'SELECT first FROM journal')).toEqual([]);
    await hand(key, plant.id, 1, 1, { kind: 'alarm' });
    expect((await stream.take(1)).map(({ event }) => event)).toEqual(['alarm']);
  });

  it('sends everything that the filter wants after many events that it does not want', async ({
    key,
    plant,
  }) => {
    const stream = await StreamClient.open(key, '/vcp/events/stream?after=0&type=alarm');
    for (let batch = 0; batch < 12; batch++)
      await hand(key, plant.id, 1 + 250 * batch, 250, { chars: 1_000 });
    await hand(key, plant.id, 3_001, 2, { kind: 'alarm' });
    expect((await stream.take(2)).map(numberOf)).toEqual([3_001, 3_002]);
  });

  it('stays open through its comments, and ends after 15 minutes [C-12.3]', async ({ key, plant }) => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const stream = await StreamClient.open(key);
    for (const number of [1, 2, 3]) {
      await vi.advanceTimersByTimeAsync(LIMIT.streamCommentMs);
      await hand(key, plant.id, number, 1);
      expect((await stream.take(1)).map(numberOf)).toEqual([number]);
    }
    expect(stream.comments).toBe(3);
    await vi.advanceTimersByTimeAsync(LIMIT.streamMs);
    expect(await stream.next()).toBeUndefined();
    await vi.waitFor(async () => expect(await socketsOf(key)).toBe(0));
  });

  it('ends when its key is revoked, and cannot be opened again [C-12.3]', async ({ key }) => {
    const stream = await StreamClient.open(key);
    await vhostOf(key.id).revoke();
    expect(await stream.next()).toBeUndefined();
    await expectError(await key.call('/vcp/events/stream'), 401, 'UNAUTHORIZED');
    await expectError(await key.call('/vcp/events'), 401, 'UNAUTHORIZED');
  });

  it('ends when its key expires [C-12.3]', async ({ organization }) => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const key = await createKey(organization, { expiresAtMs: Date.now() + 60_000 });
    const stream = await StreamClient.open(key);
    vi.setSystemTime(Date.now() + 60_001);
    await runDurableObjectAlarm(vhostOf(key.id));
    expect(await stream.next()).toBeUndefined();
  });

  it('ends when its organization is suspended', async ({ ownTeam }) => {
    const key = await createKey(ownTeam.organization);
    const stream = await StreamClient.open(key);
    const path = `/platform/organizations/${ownTeam.id}/suspend`;
    expect((await operator.post(path, { reason: 'a test' })).status).toBe(200);
    expect(await stream.next()).toBeUndefined();
  });

  it('is closed by its object after 16 minutes if its Worker has gone without a word', async ({ key }) => {
    vi.useFakeTimers({ toFake: ['Date'] });
    await StreamClient.open(key);
    vi.setSystemTime(Date.now() + LIMIT.streamMs + 60_001);
    await runDurableObjectAlarm(vhostOf(key.id));
    await vi.waitFor(async () => expect(await socketsOf(key)).toBe(0));
  });

  it('ends when its object crashes; the client resumes', async ({ key, plant }) => {
    const stream = await StreamClient.open(key);
    await hand(key, plant.id, 1, 1);
    const [last] = await stream.take(1);
    await evictDurableObject(vhostOf(key.id), { webSockets: 'close' });
    expect(await stream.next()).toBeUndefined();
    const again = await StreamClient.open(key, undefined, { 'last-event-id': last?.id ?? '' });
    await hand(key, plant.id, 2, 1);
    expect((await again.take(1)).map(numberOf)).toEqual([2]);
  });

  it('is refused over ten streams; one that is closed makes room [C-12.3]', async ({ key }) => {
    const streams = await Promise.all(
      Array.from({ length: LIMIT.streamsPerKey }, () => StreamClient.open(key)),
    );
    await expectError(await key.call('/vcp/events/stream'), 409, 'CONFLICT');
    streams[0]?.leave();
    await vi.waitFor(async () => expect(await socketsOf(key)).toBe(LIMIT.streamsPerKey - 1));
    await StreamClient.open(key);
  });

  it('closes its socket when the client leaves [C-12.3]', async ({ key }) => {
    const streams = await Promise.all(Array.from({ length: 5 }, () => StreamClient.open(key)));
    expect(await socketsOf(key)).toBe(5);
    for (const stream of streams) stream.leave();
    await vi.waitFor(async () => expect(await socketsOf(key)).toBe(0));
  });

  it('makes room for a new stream if its Worker is silent for two comments', async ({ key }) => {
    vi.useFakeTimers({ toFake: ['Date'] });
    for (let count = 0; count < LIMIT.streamsPerKey; count++) await StreamClient.open(key);
    vi.setSystemTime(Date.now() + 2 * LIMIT.streamCommentMs + 1);
    await StreamClient.open(key);
    await vi.waitFor(async () => expect(await socketsOf(key)).toBe(1));
  });

  it('answers HEAD without a stream', async ({ key }) => {
    const answer = await key.call('/vcp/events/stream', { method: 'HEAD' as never });
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    expect(await socketsOf(key)).toBe(0);
  });
});

describe('a key that is limited to one plant', () => {
  it('gets only the events of that plant, in pages and in streams [C-8.1]', async ({
    organization,
    plant,
  }) => {
    const other: Plant = await createPlant(organization);
    const key = await createKey(organization, { allowedPlantIds: [plant.id] });
    const stream = await StreamClient.open(key, '/vcp/events/stream?after=0');
    await vhostOf(key.id).receive(other.id, outboxEvents(1, 5, { kind: 'alarm' }));
    await vhostOf(key.id).receivePassing(other.id, outboxEvents(1, 5, { kind: 'telemetry' }));
    await hand(key, plant.id, 9, 1);
    expect((await stream.take(1)).map(numberOf)).toEqual([9]);
    expect(numbersOf(await key.read<Page>('/vcp/events'))).toEqual([9]);
    await expectError(await key.call(`/vcp/events?siteId=${other.id}`), 404, 'SITE_NOT_FOUND');
  });
});
