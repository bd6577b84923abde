/**
 * `lastUsedAt` of a key is updated in each minute in which one of its connections published or received a
 * message [C-5.2].
 */
import { evictDurableObject } from 'cloudflare:test';
import { expect, it, vi } from 'vitest';
import { lastUsedAtMs } from '#workerd/door.ts';
import { hand } from '#workerd/outbox-events.ts';
import type { Partner } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { type Key, vhostOf } from '#workerd/world.ts';

const START_MS = Date.UTC(2026, 0, 15, 10);
const MINUTE_MS = 60_000;
const OPENED_MS = START_MS - MINUTE_MS;
const NOBODYS_SITE = '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10';

/** A client that opened its connection a minute before the clock starts, and has done nothing since. */
async function connected(): Promise<{ key: Key; partner: Partner }> {
  vi.useFakeTimers({ toFake: ['Date'], now: OPENED_MS });
  const { key, partner } = await setScene({ partner: 'connected' });
  await expectUsedAt(key, OPENED_MS);
  at(0);
  return { key, partner };
}

function at(laterMs: number): number {
  vi.setSystemTime(START_MS + laterMs);
  return START_MS + laterMs;
}

async function expectUsedAt(key: Key, atMs: number): Promise<void> {
  await vi.waitFor(async () => expect(await lastUsedAtMs(key.id)).toBe(atMs));
}

async function publish(partner: Partner): Promise<void> {
  await partner.ask(partner.command(NOBODYS_SITE, 'emergency', { type: 'STOP' }));
}

it('lastUsedAt is the time of a publish; only a publish a minute or more later updates it again', async () => {
  const { key, partner } = await connected();
  await publish(partner);
  await expectUsedAt(key, START_MS);
  at(MINUTE_MS - 1);
  await publish(partner);
  const nextMs = at(MINUTE_MS);
  expect(await lastUsedAtMs(key.id)).toBe(START_MS);
  await publish(partner);
  await expectUsedAt(key, nextMs);
});

it('lastUsedAt is the time at which a consumer receives an event, not the time of its basic.consume', async () => {
  const { key, partner } = await connected();
  await partner.consume('event.status');
  expect(await lastUsedAtMs(key.id)).toBe(OPENED_MS);
  const takenMs = at(MINUTE_MS / 2);
  await hand(key, NOBODYS_SITE, 1, 1);
  await expectUsedAt(key, takenMs);
});

it('lastUsedAt is the time of a basic.get that returns a message; an empty one does not change it', async () => {
  const { key, partner } = await connected();
  await partner.get('event.status');
  await partner.quiet();
  expect(await lastUsedAtMs(key.id)).toBe(OPENED_MS);
  await hand(key, NOBODYS_SITE, 1, 1);
  const gotMs = at(MINUTE_MS / 2);
  await partner.get('event.status');
  await expectUsedAt(key, gotMs);
});

it('lastUsedAt does not change by a publish less than a minute after the last change, even after a sleep', async () => {
  const { key, partner } = await connected();
  await publish(partner);
  await expectUsedAt(key, START_MS);
  await evictDurableObject(vhostOf(key.id));
  at(MINUTE_MS - 1);
  await publish(partner);
  const nextMs = at(MINUTE_MS);
  await publish(partner);
  await expectUsedAt(key, nextMs);
});
