/** Webhooks that the platform disables: what disables them, who learns of it, and how they go on. */

import { runDurableObjectAlarm } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { rowsFrom, valueFrom } from '#workerd/d1.ts';
import { Mailbox } from '#workerd/mailbox.ts';
import { figure } from '#workerd/metrics.ts';
import { hand, range } from '#workerd/outbox-events.ts';
import { PostReceiver } from '#workerd/post-receiver.ts';
import { setScene } from '#workerd/scene.ts';
import { Team } from '#workerd/team.ts';
import {
  addHook,
  alarmAt,
  ask,
  changeHook,
  crash,
  DAY,
  HOUR,
  type HookScene,
  MINUTE,
  passTime,
  quiet,
  SECOND,
  START_MS,
  stateOf,
  stopTime,
  storedState,
  trust,
  until,
} from '#workerd/webhook-scenes.ts';
import { vhostOf } from '#workerd/world.ts';
import type { Env } from '../../../../worker/env.ts';
import { keepHouse } from '../../../../worker/lifecycle/housekeeping.ts';

stopTime();

interface Registered {
  status: string;
  reason: string | null;
  atMs: number;
  alertId: string | null;
  mailDue: number | null;
}

/** The webhook in D1. */
async function registered({ id }: HookScene): Promise<Registered | undefined> {
  const columns = 'status_reason AS reason, status_at_ms AS atMs, alert_id AS alertId, mail_due AS mailDue';
  return (await rowsFrom<Registered>(`SELECT status, ${columns} FROM webhooks WHERE id = ?`, id))[0];
}

async function alertsOf({ organization }: HookScene) {
  const columns = 'id, type, severity, status, message, rule_id AS ruleId, resolved_by AS resolvedBy';
  const query = `SELECT ${columns} FROM alerts WHERE organization_id = ? ORDER BY first_seen_at_ms`;
  return await rowsFrom<Record<string, unknown>>(query, organization.id);
}

async function untilRegistered(scene: HookScene, status: string): Promise<void> {
  await until(scene.key, async () => (await registered(scene))?.status === status);
}

const GONE_MS = START_MS + SECOND;

/** A webhook of a team, whose receiver answers an event with 410; `before` that something else happens. */
async function openGone(before = () => {}) {
  const team = await Team.create();
  const scene = await setScene({ organization: team.organization, webhook: 'enabled' });
  await untilRegistered(scene, 'ENABLED');
  await trust(scene);
  before();
  scene.receiver.answerWith(410);
  await hand(scene.key, scene.siteId, 1, 3);
  await quiet(scene);
  return { ...scene, team };
}

/** D1 refuses to write the status of a webhook until the returned function is called. */
function refuseStatus(): () => void {
  vi.spyOn(console, 'warn').mockReturnValue(undefined);
  const refusal = new Error('D1_ERROR: the test wants it so');
  const isStatus = ({ statement }: { statement: string }) => /^update "webhooks"/i.test(statement);
  const database = Object.getPrototypeOf(env.DB) as D1Database;
  const { batch } = database;
  const spy = vi.spyOn(database, 'batch').mockImplementation(async function (this: D1Database, statements) {
    if ((statements as unknown as { statement: string }[]).some(isStatus)) throw refusal;
    return await batch.call(this, statements);
  } as D1Database['batch']);
  return () => spy.mockRestore();
}

describe('a webhook whose receiver answers 410', () => {
  it('is disabled at once: in D1, with an alert, an audit event and counts [C-12.4]', async () => {
    const before = [
      (await figure('webhooks_disabled_total', { reason: 'GONE' })) ?? 0,
      (await figure('webhook_attempts_total', { result: 'failed' })) ?? 0,
    ] as const;
    const scene = await openGone();
    const { id, team, receiver } = scene;
    await untilRegistered(scene, 'DISABLED');
    expect(await stateOf(scene)).toMatchObject({ status: 'DISABLED', reason: 'GONE' });
    const [alert, ...others] = await alertsOf(scene);
    expect(others).toEqual([]);
    expect(alert).toMatchObject({ type: 'WEBHOOK', severity: 'CRITICAL', status: 'ACTIVE', ruleId: null });
    expect(alert?.message).toBe(
      `The webhook ${new URL(receiver.url).origin} is disabled: its receiver answered 410 Gone`,
    );
    const row = await registered(scene);
    expect(row).toEqual({
      status: 'DISABLED',
      reason: 'GONE',
      atMs: GONE_MS,
      alertId: alert?.id,
      mailDue: 1,
    });
    const trail = (await team.auditRowsOf(id)).filter(({ event }) => event === 'webhook.disabled');
    expect(trail).toMatchObject([{ outcome: 'FAILURE', actor: 'webhooks', target_type: 'WEBHOOK' }]);
    await passTime(scene, MINUTE);
    expect(await figure('webhooks_disabled_total', { reason: 'GONE' })).toBe(before[0] + 1);
    expect(await figure('webhook_attempts_total', { result: 'failed' })).toBe(before[1] + 3);
  });

  it('gets no further post, and its object has no alarm for it [C-12.4]', async () => {
    const scene = await openGone();
    await passTime(scene, HOUR);
    const count = scene.receiver.posts.length;
    await hand(scene.key, scene.siteId, 4, 3);
    await passTime(scene, 2 * DAY);
    expect(scene.receiver.posts).toHaveLength(count);
    expect((await alarmAt(scene.key)) ?? Number.POSITIVE_INFINITY).toBeGreaterThan(Date.now() + DAY);
  });

  it('is reported by mail to the ORG_ADMINs, once, by the scheduled task [C-12.4]', async () => {
    const scene = await openGone();
    const { team, receiver } = scene;
    await untilRegistered(scene, 'DISABLED');
    const mailbox = new Mailbox();
    const minute = async () => {
      await keepHouse({ ...env, ...mailbox.bindings } as Env, Date.now());
      return mailbox.mails.filter(({ to }) => team.members.some(({ email }) => email === to));
    };
    const mails = await minute();
    expect(mails.map(({ to }) => to)).toEqual([team.orgAdmin.email]);
    expect(mails[0]?.subject).toBe('A webhook on Sitewire is disabled');
    expect(mails[0]?.text).toContain(new URL(receiver.url).origin);
    expect(mails[0]?.text).not.toContain(receiver.url);
    expect(await minute()).toHaveLength(1);
    expect(await registered(scene)).toMatchObject({ status: 'DISABLED', mailDue: null });
  });

  it('continues from where it stopped when it is enabled, which resolves the alert [C-12.4]', async () => {
    const scene = await openGone();
    const { id, key, siteId, team, receiver } = scene;
    await hand(key, siteId, 4, 2);
    await untilRegistered(scene, 'DISABLED');
    receiver.answerWith(200);
    vi.setSystemTime(Date.now() + 10 * MINUTE);
    const path = `/partner/webhooks/${id}/enable`;
    const answer = await team.orgAdmin.read(path, { method: 'POST', org: team.id });
    expect(answer).toMatchObject({ status: 'ENABLED', statusReason: null });
    await until(key, () => receiver.delivered.length === 5);
    expect(receiver.delivered).toEqual(range(1, 5));
    await quiet(scene);
    expect(await alertsOf(scene)).toMatchObject([{ status: 'RESOLVED', resolvedBy: team.orgAdmin.id }]);
    expect(await registered(scene)).toMatchObject({ status: 'ENABLED', reason: null, alertId: null });
    expect((await team.auditRowsOf(id)).map(({ event }) => event)).toContain('webhook.enabled');
  });

  it('again after it was enabled is a second alert, audit event and mail [C-12.4]', async () => {
    const scene = await openGone();
    const { id, team } = scene;
    await untilRegistered(scene, 'DISABLED');
    vi.setSystemTime(Date.now() + 10 * MINUTE);
    scene.receiver.answer = () => {
      vi.setSystemTime(Date.now() + 1);
      return new Response(null, { status: 410 });
    };
    await team.orgAdmin.read(`/partner/webhooks/${id}/enable`, { method: 'POST', org: team.id });
    await passTime(scene, MINUTE);
    expect((await alertsOf(scene)).map(({ status }) => status)).toEqual(['RESOLVED', 'ACTIVE']);
    expect(await registered(scene)).toMatchObject({ status: 'DISABLED', reason: 'GONE', mailDue: 1 });
    const events = (await team.auditRowsOf(id)).filter(({ event }) => event === 'webhook.disabled');
    expect(events).toHaveLength(2);
  });

  it('leaves other webhooks of the key as they are [C-12.4]', async () => {
    const scene = await openGone();
    vi.setSystemTime(Date.now() + 1);
    const other = new PostReceiver();
    await addHook(scene.organization, scene.key, { url: other.url });
    await hand(scene.key, scene.siteId, 4, 2);
    await until(scene.key, () => other.delivered.length === 2);
    expect(other.delivered).toEqual([4, 5]);
  });
});

describe('a webhook whose attempts fail', () => {
  it('eleven times for one event is disabled after the last, and not before [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'trusted' });
    receiver.answerWith(500);
    await hand(key, siteId, 1, 20);
    const untilLast = [2, 5, 10, 14, 20, 24].reduce(
      (sum, hours) => sum + hours * HOUR,
      36 * MINUTE + 5 * SECOND,
    );
    await passTime(scene, untilLast - 1);
    expect(receiver.numbers.filter((number) => number === 1)).toHaveLength(10);
    expect(await stateOf(scene)).toMatchObject({ status: 'ENABLED', delivery: { failures: 10 } });
    await passTime(scene, 1);
    expect(await stateOf(scene)).toMatchObject({ status: 'DISABLED', reason: 'ATTEMPTS_FAILED' });
    expect(receiver.numbers).toEqual([...range(1, 5), ...Array(10).fill(1)]);
    await untilRegistered(scene, 'DISABLED');
    expect((await alertsOf(scene))[0]?.message).toMatch(/all attempts to reach its receiver failed/);
  });

  it('because its receiver asks for later attempts for ever is disabled after the same time [C-12.4]', async () => {
    const scene = await setScene({ webhook: 'enabled' });
    scene.receiver.answerWith(503, { 'retry-after': '7200' });
    await hand(scene.key, scene.siteId, 1, 1);
    await passTime(scene, 75 * HOUR);
    expect(await stateOf(scene)).toMatchObject({ status: 'ENABLED', delivery: { failures: 1 } });
    await passTime(scene, 3 * HOUR);
    expect(await stateOf(scene)).toMatchObject({ status: 'DISABLED', reason: 'ATTEMPTS_FAILED' });
    await untilRegistered(scene, 'DISABLED');
  });
});

describe('a webhook that was disabled and gets a new URL', () => {
  it('is enabled in D1 when the new receiver has answered, and its alert is resolved [C-12.4]', async () => {
    const scene = await openGone();
    await untilRegistered(scene, 'DISABLED');
    await passTime(scene, MINUTE);
    const next = new PostReceiver();
    next.answer = () => {
      vi.setSystemTime(Date.now() + 1);
      return new Response('thanks');
    };
    await changeHook(scene, { url: next.url });
    await until(scene.key, () => next.delivered.length === 3);
    await passTime({ key: scene.key, receiver: next }, MINUTE);
    expect(await registered(scene)).toMatchObject({ status: 'ENABLED', reason: null, mailDue: null });
    expect(await alertsOf(scene)).toMatchObject([{ status: 'RESOLVED' }]);
  });
});

describe('a status that D1 refuses', () => {
  it('is written again every minute until D1 has it, with one alert [C-12.4]', async () => {
    let mend = () => {};
    const scene = await openGone(() => {
      mend = refuseStatus();
    });
    await passTime(scene, 3 * MINUTE);
    expect([await registered(scene), await alertsOf(scene)]).toMatchObject([{ status: 'ENABLED' }, []]);
    expect((await storedState(scene.key))?.isReported).toBe(false);
    mend();
    await passTime(scene, MINUTE);
    await untilRegistered(scene, 'DISABLED');
    expect(await registered(scene)).toMatchObject({ atMs: GONE_MS });
    expect(await alertsOf(scene)).toHaveLength(1);
    await passTime(scene, HOUR);
    expect((await storedState(scene.key))?.isReported).toBe(true);
    expect(await alertsOf(scene)).toHaveLength(1);
  });

  it('is written after a crash by the alarm of the object alone [C-12.4]', async () => {
    let mend = () => {};
    const scene = await openGone(() => {
      mend = refuseStatus();
    });
    await crash(scene.key);
    mend();
    vi.setSystemTime(Date.now() + 2 * MINUTE);
    expect(await runDurableObjectAlarm(vhostOf(scene.key.id))).toBe(true);
    await untilRegistered(scene, 'DISABLED');
    const counted = 'SELECT count(*) FROM alerts WHERE organization_id = ?';
    expect(await valueFrom(counted, scene.organization.id)).toBe(1);
    expect(await ask(scene, { kind: 'state' })).toMatchObject({ status: 'DISABLED' });
  });
});
