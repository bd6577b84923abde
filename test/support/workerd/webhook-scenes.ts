/**
 * Webhooks of new keys, their changes in the registry, and the time of their Vhosts. The clock stops: only `passTime`
 * moves it, and with it the timers and alarms of a key's Vhost.
 */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { beforeEach, expect, vi } from 'vitest';
import type { WebhookAnswer, WebhookQuestion, WebhookRequest } from '../../../protocol/webhook.ts';
import { changeWebhook, createWebhook, deleteWebhook, findWebhook } from '../../../registry/webhooks.ts';
import { newSecret, sealSecret } from '../../../worker/lifecycle/webhook.ts';
import type { KeyClient } from './client.ts';
import { auditOf, done, markDelivered } from './commits.ts';
import { runSql } from './d1.ts';
import { hand } from './outbox-events.ts';
import { vhostRows } from './partner.ts';
import type { PostReceiver } from './post-receiver.ts';
import { notifyVhost } from './registry-changes.ts';
import { createOrganization, type Key, type Organization, vhostOf } from './world.ts';

export const START_MS = Date.parse('2030-03-05T12:00:00.000Z');
export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** How often a test looks at an object for its own work: enough for any work, and without a timer. */
const MAX_LOOKS = 500;
/** After so many looks in which nothing came, an object that waits for nothing posts nothing. */
const QUIET_LOOKS = 12;
/** An agenda that runs more often than this in one `passTime` has a bug: it is due again and again. */
const MAX_RUNS = 200;

/** Call once per file. */
export function stopTime(): void {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: START_MS });
    // No jitter.
    vi.spyOn(Math, 'random').mockReturnValue(0);
  });
}

export interface Hook {
  id: string;
  secret: string;
}

export interface HookScene extends Hook {
  organization: Organization;
  key: KeyClient;
  siteId: string;
  receiver: PostReceiver;
}

/** An organization for which the operator has set ceilings. */
export async function organizationWith(ceilings: object): Promise<Organization> {
  const organization = await createOrganization();
  await runSql(
    'UPDATE organizations SET ceilings = ? WHERE id = ?',
    JSON.stringify(ceilings),
    organization.id,
  );
  return organization;
}

/** An organization whose webhooks may post without a pause. */
export function unlimited(): Promise<Organization> {
  return organizationWith({ webhookPostsPerMinute: 100_000, webhookHostPostsPerMinute: 100_000 });
}

/** Waits until the receiver of a webhook has answered the first message. */
export async function untilEnabled(hook: Pick<HookScene, 'id' | 'key'>): Promise<void> {
  await until(hook.key, async () => (await stateOf(hook)).status === 'ENABLED');
}

/** Delivers an event, so that more than one may be under way, which takes a second, and forgets its post. */
export async function trust({ key, receiver }: HookScene): Promise<void> {
  await hand(key, crypto.randomUUID(), 1, 1);
  await until(key, async () => receiver.delivered.length === 1);
  await settle({ key, receiver });
  receiver.posts.length = 0;
}

/** Adds a webhook to the registry, and reports it to the Vhost of its key unless `isReported` is false. */
export async function addHook(
  organization: Organization,
  key: Key,
  request: Partial<WebhookRequest> & { url: string },
  isReported = true,
): Promise<Hook> {
  const secret = newSecret();
  const { url, types = ['ack', 'execution', 'alarm', 'telemetry'], siteIds = null } = request;
  const whole = { url, types, siteIds, keyId: key.id, description: '' };
  const { row, change } = done(
    await createWebhook(
      env.DB,
      organization.id,
      whole,
      (id) => sealSecret(env, id, secret),
      auditOf(organization, 'webhook.created', 'WEBHOOK'),
      Date.now(),
    ),
  );
  await markDelivered(change);
  if (isReported) await notifyVhost(key.id, change.version);
  return { id: row.id, secret };
}

async function rowOf({ id, organization }: HookScene) {
  const found = await findWebhook(env.DB, organization.id, id);
  if (!found) throw new Error('no such webhook');
  return found.row;
}

/** Changes columns of a webhook in the registry, and reports it to the Vhost. */
export async function changeHook(
  scene: HookScene,
  columns: Parameters<typeof changeWebhook>[2],
): Promise<void> {
  const audit = auditOf(scene.organization, 'webhook.updated', 'WEBHOOK')(scene.id);
  const changed = done(await changeWebhook(env.DB, await rowOf(scene), columns, audit, Date.now()));
  await markDelivered(changed.change);
  await notifyVhost(scene.key.id, changed.change.version);
}

export async function deleteHook(scene: HookScene): Promise<void> {
  const audit = auditOf(scene.organization, 'webhook.deleted', 'WEBHOOK')(scene.id);
  const change = done(await deleteWebhook(env.DB, await rowOf(scene), audit, Date.now()));
  await markDelivered(change);
  await notifyVhost(scene.key.id, change.version);
}

type Answered = Exclude<WebhookAnswer, { refused: string }>;

export async function ask(
  { id, key }: Pick<HookScene, 'id' | 'key'>,
  question: WebhookQuestion,
): Promise<Answered> {
  const answer = await vhostOf(key.id).askWebhook(id, question);
  if ('refused' in answer) throw new Error(answer.refused);
  return answer as Answered;
}

export async function stateOf(scene: Pick<HookScene, 'id' | 'key'>): Promise<Answered> {
  return await ask(scene, { kind: 'state' });
}

/** The stored state of the only webhook of a key, without a turn of its object. */
export async function storedState(key: Key): Promise<Record<string, unknown> | undefined> {
  const [row] = await vhostRows<{ state: string }>(key, 'SELECT state FROM webhook');
  return row && JSON.parse(row.state);
}

/** Waits for something that a key's Vhost does by itself. */
export async function until(key: Key, isDone: () => boolean | Promise<boolean>): Promise<void> {
  for (let look = 0; look < MAX_LOOKS; look++) {
    if (await isDone()) return;
    await turnOf(key);
  }
  throw new Error(`this has not happened: ${isDone}`);
}

/** Waits until a Vhost has handled all answers and posts nothing more at the present time. */
export async function quiet({ key, receiver }: Pick<HookScene, 'key' | 'receiver'>): Promise<void> {
  let seen = -1;
  for (let still = 0, looks = 0; still < QUIET_LOOKS; looks++) {
    if (looks > MAX_LOOKS) throw new Error('the vhost does not come to rest');
    await turnOf(key);
    const now = receiver.posts.length * 1_000 + receiver.open;
    still = now === seen ? still + 1 : 0;
    seen = now;
  }
}

/** A call of the object, which lets it go on. */
async function turnOf(key: Key): Promise<void> {
  await runInDurableObject(vhostOf(key.id), () => {});
}

export async function alarmAt(key: Key): Promise<number | null> {
  return await runInDurableObject(vhostOf(key.id), (_, { storage }) => storage.getAlarm());
}

/** Lets time pass for the Vhost of a key: its timers and each alarm run at their moments. */
export async function passTime(
  scene: Pick<HookScene, 'key' | 'receiver'>,
  durationMs: number,
): Promise<void> {
  const stub = vhostOf(scene.key.id);
  const untilMs = Date.now() + durationMs;
  for (let runs = 0; runs < MAX_RUNS; runs++) {
    await quiet(scene);
    const dueMs = (await alarmAt(scene.key)) ?? Number.POSITIVE_INFINITY;
    if (dueMs > untilMs && Date.now() === untilMs) return;
    // A timer may set an alarm: the clock goes on in steps while there are timers.
    const stepMs = vi.getTimerCount() > 0 ? Date.now() + SECOND : untilMs;
    const nextMs = Math.max(Date.now(), Math.min(dueMs, stepMs, untilMs));
    await runInDurableObject(stub, () => vi.advanceTimersByTimeAsync(nextMs - Date.now()));
    if (dueMs <= nextMs) await runDurableObjectAlarm(stub);
  }
  throw new Error('the agenda does not come to rest');
}

/** Stores what is only in memory, as the Vhost does within a second. */
export async function settle(scene: Pick<HookScene, 'key' | 'receiver'>): Promise<void> {
  await quiet(scene);
  await runInDurableObject(vhostOf(scene.key.id), () => vi.advanceTimersByTimeAsync(SECOND));
}

/** The object leaves memory; nothing wakes it. */
export async function evict(scene: Pick<HookScene, 'key' | 'receiver'>): Promise<void> {
  await settle(scene);
  await evictDurableObject(vhostOf(scene.key.id));
}

/** The object restarts at once: what is only in memory is lost. */
export async function crash(key: Key): Promise<void> {
  const crashed = runInDurableObject(vhostOf(key.id), (_, state) => state.abort('crash of a test'));
  await expect(crashed).rejects.toThrow('crash of a test');
  vi.clearAllTimers();
}
