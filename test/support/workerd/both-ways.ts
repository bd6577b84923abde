/**
 * A walk of random commands that are sent to one plant over AMQP and to another one like it over HTTPS: the acknowledgements,
 * the log rows and the events must be equal [C-13.5].
 */
import fc from 'fast-check';
import { expect, vi } from 'vitest';
import type { CommandLogEntry } from '../../../protocol/command-log.ts';
import type { CommandAnswer } from '../../../protocol/rest-publish.ts';
import type { KeyClient } from './client.ts';
import { connectPartner, publishFrame } from './links.ts';
import { type Draft, randomCommand } from './random-commands.ts';
import { createKey, createOrganization, createPlant, type Organization } from './world.ts';

const TIMES = ['createdAt', 'ackedAt', 'dispatchedAt', 'startedAt', 'finishedAt'];
/** A key takes this many publishes before it is paced. */
const KEYS_EVERY = 150;

/** The frame of a draft for one site: the same messageId and payload for each site. */
function frameOf(
  organization: Organization,
  key: Awaited<ReturnType<typeof createKey>>,
  draft: ReturnType<Draft>,
) {
  return (siteId: string) => {
    const { messageId, payloadText, signature, timestampMs, family, routingKey } = draft;
    const options = {
      ...{ messageId, correlationId: messageId, sign: signature !== 'missing' && signature !== 'not-needed' },
      timestamp: new Date(timestampMs).toISOString(),
    };
    const frame = publishFrame(organization, key, siteId, family, JSON.parse(payloadText), options);
    const body =
      signature === 'mismatch' ? frame.body.replace(/"signature":"./, '"signature":"z') : frame.body;
    const word = routingKey.slice(routingKey.lastIndexOf('.'));
    return { ...frame, body, routingKey: frame.routingKey.replace(/\.set$/, word) };
  };
}

/** A log entry without what differs between two sites and two moments. */
function comparable(
  { id: _id, siteId: _site, keyPrefix: _prefix, ...entry }: CommandLogEntry,
  ids: ReadonlyMap<string, string>,
): string {
  const shown = Object.entries(entry).map(([name, value]) => [
    name,
    TIMES.includes(name) ? typeof value : value,
  ]);
  return JSON.stringify(shown, (_name, value) =>
    typeof value === 'string'
      ? value.replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, (id) => ids.get(id) ?? 'id')
      : value,
  );
}

async function logOf(client: KeyClient, siteId: string): Promise<CommandLogEntry[]> {
  const all: CommandLogEntry[] = [];
  for (let page = 1; ; page++) {
    const { items } = await client.read<{ items: CommandLogEntry[] }>(
      `/vcp/sites/${siteId}/commands?pageSize=500&page=${page}`,
    );
    all.push(...items);
    if (items.length < 500) return all.toReversed();
  }
}

async function eventsOf(client: KeyClient, siteId: string): Promise<string[]> {
  const all: string[] = [];
  for (let after = 0; ; ) {
    const page = await client.read<{ events: { routingKey: string; event: string }[]; next: number }>(
      `/vcp/events?siteId=${siteId}&limit=500&after=${after}`,
    );
    for (const { routingKey, event } of page.events) {
      const { correlationId, payload } = JSON.parse(event);
      const { alarmId: _id, raisedAt: _at, ...rest } = payload;
      const text = JSON.stringify([routingKey, correlationId, rest]);
      all.push(text.replace(/SUPERSEDED by [0-9a-f-]{36}/g, 'SUPERSEDED'));
    }
    if (page.next === after) return all;
    after = page.next;
  }
}

export async function walkBothWays(seed: number, count: number): Promise<void> {
  const organization = await createOrganization();
  const [overAmqp, overHttps] = [await createPlant(organization), await createPlant(organization)];
  // Both ways see the same time.
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
  const drafts = fc.sample(randomCommand, { numRuns: count, seed });
  const used: string[] = [];
  const acknowledged = new Set<string>();
  for (let start = 0; start < count; start += KEYS_EVERY) {
    const key = await createKey(organization);
    const link = await connectPartner(key);
    const part = drafts.slice(start, start + KEYS_EVERY);
    for (const [index, make] of part.entries()) {
      const draft = make(Date.now(), used);
      const frame = frameOf(organization, key, draft);
      const seq = index + 1;
      // One after another, because an emergency overtakes the commands before it.
      link.send({ ...frame(overAmqp.id), seq });
      await link.next((one) => one.kind === 'stored' && one.seqs.includes(seq));
      const { routingKey, body: message } = frame(overHttps.id);
      const response = await key.post(`/vcp/sites/${overHttps.id}/commands`, { routingKey, message });
      expect(response.status).toBe(200);
      acknowledged.add((await response.json<CommandAnswer>()).acknowledgement.status);
      used.push(draft.messageId);
      vi.setSystemTime(Date.now() + 100);
    }
    const [theirs, own] = [await eventsOf(key, overAmqp.id), await eventsOf(key, overHttps.id)];
    expect(own).toEqual(theirs);
    expect(own.filter((text) => text.includes('.event.command.ack')).length).toBe(part.length);
  }
  const reader = await createKey(organization);
  const ids = new Map(used.map((id) => [id, id]));
  const [theirs, own] = [await logOf(reader, overAmqp.id), await logOf(reader, overHttps.id)];
  expect(own.map((entry) => comparable(entry, ids))).toEqual(theirs.map((entry) => comparable(entry, ids)));
  expect([...acknowledged].sort()).toEqual(expect.arrayContaining(['QUEUED', 'REJECTED']));
}
