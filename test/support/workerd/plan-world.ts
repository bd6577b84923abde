/** A real Site with its gateway and its partner, next to a model of its plan. Each check compares the two. */
import { runInDurableObject } from 'cloudflare:test';
import { expect, vi } from 'vitest';
import type { OutboxEvent, Submission } from '../../../durable-objects/rpc.ts';
import { Vhost } from '../../../durable-objects/vhost.ts';
import type { DeviceAckStatus, EmergencyType, OperatingMode } from '../../../protocol/enums.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { DeviceTestLink } from './links.ts';
import { type Doing, PlanModel, type Priority } from './plan-model.ts';
import { MINUTE, passTime, SECOND, setClock } from './site-clock.ts';
import {
  commandsOf,
  connectListening,
  type ReceivedCommand,
  sendAck,
  sendTelemetry,
} from './site-devices.ts';
import { evictSite, rowsOf } from './site-rows.ts';
import { Submitter, submission } from './site-submissions.ts';
import { createOrganization, createPlant, DEFAULT_SUB_DEVICES, type Plant, siteOf } from './world.ts';

const TERMINAL = ['COMPLETED', 'DEVIATED', 'FAILED', 'REJECTED'];
const MAX_CHARGE_KW = 50;
/** The site closes a session from which it receives nothing for longer. */
const SESSION_MS = 60 * SECOND;
/** How often the gateway sends a message to stay connected. */
const LIFE_MS = 50 * SECOND;

type LogRow = {
  id: string;
  message_id: string;
  command_type: string;
  status: string;
  reason: string | null;
  finished_at_ms: number | null;
  /** 1 while a dispatch of the command is open. */
  is_open: number;
};

type AlarmRow = { correlation_id: string | null; at_ms: number; payload: string };

/** A failure that the model cannot predict: a device rejected a command or did not answer it. */
interface Chance {
  messageId: string;
  atMs: number;
  /** Set for the slot of a schedule. */
  slotIndex?: number;
}

interface Mode {
  order: number;
  mode: string;
  untilMs: number | null;
}

interface Look {
  dueMs: number | null;
  /** The number of schedules whose status contradicts that of their command. */
  incoherent: number;
  isEngaged: boolean;
  rows: LogRow[];
  alarms: AlarmRow[];
}

const INCOHERENT = `SELECT count(*) AS count FROM schedule JOIN command ON command.sequence = schedule.command_sequence
  WHERE command.status <> CASE schedule.status WHEN 'ACTIVE' THEN 'EXECUTING' WHEN 'COMPLETED' THEN 'COMPLETED'
    WHEN 'FAILED' THEN 'FAILED' WHEN 'CANCELLED' THEN 'FAILED' ELSE 'PENDING' END`;

/**
 * Keeps the ids of the partner's mode commands to the gateway. A command to the gateway does not say whether the partner
 * or the plan changes the mode, and the site may delete the dispatch before the test reads it.
 */
const KEEP_MODES = `CREATE TABLE test_mode (cmd_id TEXT PRIMARY KEY, command_sequence INTEGER NOT NULL);
  CREATE TRIGGER test_mode_keep AFTER INSERT ON dispatch WHEN new.owner = 'MODE_CHANGE' BEGIN
    INSERT INTO test_mode VALUES (new.cmd_id, new.command_sequence); END`;

const MODES = `SELECT test_mode.cmd_id, json_extract(command.payload, '$.reason') AS reason FROM test_mode
  JOIN command ON command.sequence = test_mode.command_sequence`;

/** How long an awake site may take to raise the alarm of a state. */
const WORKED_OUT_MS = 5 * SECOND;

export class PlanWorld {
  readonly #plant: Plant;
  readonly #partner: Submitter;
  readonly #hardKw: number;
  #limitKw: number;
  /** The limit that the gateway received last. */
  #commandedKw: number | undefined;
  /** The configured fallback, and what the gateway reported about it. */
  readonly #fallback = {
    afterMs: null as number | null,
    awaySinceMs: null as number | null,
    isActive: false,
    /**
     * False after the gateway reported its fallback: the site evaluates the report later, at the latest when the
     * gateway connects or disconnects.
     */
    isSure: true,
    wanted: { is: false, sinceMs: 0 },
  };
  readonly #model = new PlanModel(Date.now());
  readonly #events = new Map<number, OutboxEvent>();
  readonly #submitted: Submission[] = [];
  /** MessageIds of setpoints by their power in watts, which is unique. */
  readonly #setpoints = new Map<number, string>();
  /** The partner's mode changes by their reasons, which are unique. */
  readonly #modes = new Map<string, Mode>();
  /** Reasons of the partner's mode changes by the ids of the commands to the gateway. */
  readonly #modeReasons = new Map<string, string>();
  /** MessageIds of schedules by their ids. */
  readonly #schedules = new Map<string, string>();
  readonly #ended = new Map<string, string>();
  #link: DeviceTestLink | undefined;
  #seen = 0;
  /** Commands by cmdId, as the gateway last got them; `isOpen` until their last answer. */
  readonly #commands = new Map<string, { command: ReceivedCommand; isOpen: boolean; isTaken: boolean }>();
  #doing: Doing | undefined;
  readonly #hearing: { mockRestore(): void };
  #isLeaping = false;
  /** The clock leapt, and no call has reached the site since. */
  #isAsleep = false;
  /** How far the clock has leapt since the last message of the gateway. */
  #leaptMs = 0;
  #kwCount = 0;

  private constructor(plant: Plant, limitKw: number) {
    this.#plant = plant;
    this.#partner = new Submitter(plant.id);
    this.#hardKw = limitKw;
    this.#limitKw = limitKw;
    this.#hearing = vi.spyOn(Vhost.prototype, 'receive').mockImplementation((async (
      _siteId: string,
      events: OutboxEvent[],
    ) => {
      this.#hear(events);
      return { received: events.at(-1)?.sequence ?? 0, gone: false };
    }) as unknown as Vhost['receive']);
  }

  static async open(limitKw: number): Promise<PlanWorld> {
    const batteries = [{ externalId: 'BESS-2', assetType: 'BESS' as const, ratedPowerKw: 40 }];
    const subDevices = [...DEFAULT_SUB_DEVICES, ...batteries];
    const world = new PlanWorld(await createPlant(await createOrganization(), { subDevices }), limitKw);
    await world.come();
    await rowsOf(world.#plant.id, KEEP_MODES);
    return world;
  }

  get now(): number {
    return Date.now();
  }

  /** Returns a power that no other setpoint has, so that a command to the gateway shows which setpoint it is for. */
  nextKw(): number {
    this.#kwCount += 1;
    return 1 + this.#kwCount / 1_000;
  }

  // the partner

  async submitSetpoint(
    payload: {
      priority: string;
      validFrom: string;
      targetValueKw?: number;
      targetValueKwh?: number;
    },
    fromMs: number,
    untilMs: number | null,
  ): Promise<void> {
    const one = submission('site-setpoint', payload);
    const ack = await this.#submit(one);
    const kw = payload.targetValueKw ?? (payload.targetValueKwh ?? 0) * 4;
    if (kw > this.#limitKw) {
      expect(ack).toMatchObject({ status: 'REJECTED', rejectionCode: 'CONSTRAINT_VIOLATION' });
      this.#model.record();
      return;
    }
    expect(['ACCEPTED', 'QUEUED']).toContain(ack.status);
    this.#setpoints.set(Math.round(kw * 1_000), one.messageId);
    this.#model.addSetpoint(one.messageId, payload.priority as Priority, kw, fromMs, untilMs);
    const doing = this.#model.doing();
    if (ack.status === 'ACCEPTED') expect(doing).toEqual({ by: 'entry', messageId: one.messageId });
  }

  /** Sets a limit that this share of all earlier setpoints is below; a share of 1 sets the hard limit. */
  async submitLimit(share: number): Promise<void> {
    const kw = share < 1 ? (10_005 + 10 * Math.round(this.#kwCount * share)) / 10_000 : this.#hardKw;
    const ack = await this.#submit(submission('config', { constraints: { maxImportKw: kw } }));
    expect(['ACCEPTED', 'QUEUED']).toContain(ack.status);
    this.#limitKw = kw;
    this.#model.limit(kw);
  }

  /** Submits slots of a minute: `kw` has a unique power, `over` a power above every limit, `mode` only a mode. */
  async submitSchedule(aheadMs: number, kinds: readonly ('kw' | 'over' | 'mode')[]): Promise<void> {
    const scheduleId = crypto.randomUUID();
    const fromMs = this.now + aheadMs;
    const powers = kinds.map((kind) =>
      kind === 'mode' ? null : this.nextKw() + (kind === 'over' ? this.#hardKw : 0),
    );
    const slots = powers.map((value, slotIndex) =>
      value === null
        ? { slotIndex, mode: 'PEAK_SHAVING', setpoint: null }
        : { slotIndex, mode: 'STANDARD', setpoint: { value } },
    );
    const payload = { scheduleId, startTime: formatInstant(fromMs), slotDurationMinutes: 1, slots };
    const one = submission('schedule', payload);
    const ack = await this.#submit(one);
    const isOver = fromMs + slots.length * MINUTE <= this.now;
    const isUnfit = powers.some((kw) => (kw ?? 0) > this.#limitKw);
    if (isOver || isUnfit) {
      const rejectionCode = isOver ? 'INVALID_PAYLOAD' : 'CONSTRAINT_VIOLATION';
      expect(ack).toMatchObject({ status: 'REJECTED', rejectionCode });
      this.#model.record();
      return;
    }
    expect(this.#model.isEmergency ? ['QUEUED'] : ['ACCEPTED', 'QUEUED']).toContain(ack.status);
    this.#schedules.set(scheduleId, one.messageId);
    this.#model.addSchedule(one.messageId, fromMs, powers);
  }

  async cancelSchedule(pick: number): Promise<void> {
    const [scheduleId, messageId] = [...this.#schedules][pick % Math.max(1, this.#schedules.size)] ?? [];
    if (!scheduleId || !messageId) return;
    const ack = await this.#submit(
      submission('schedule', { scheduleId }, { routingKey: 'acme.schedule.cancel' }),
    );
    if (ack.status === 'REJECTED') this.#model.record();
    else this.#model.cancelSchedule(messageId);
  }

  /** Configures a fallback after this many seconds; null removes it. */
  async submitFallback(afterSeconds: number | null): Promise<void> {
    const fallback = afterSeconds === null ? null : { mode: 'STANDARD', afterSeconds, action: 'STOP' };
    const ack = await this.#submit(submission('config', { fallback }));
    expect(['ACCEPTED', 'QUEUED']).toContain(ack.status);
    // After each change of the configuration, the site checks all setpoints and schedules again.
    this.#model.limit(this.#limitKw);
    this.#fallback.afterMs = afterSeconds === null ? null : afterSeconds * SECOND;
  }

  async submitCharge(deviceId: string, powerKw: number): Promise<void> {
    const commands = [{ deviceId, assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw } }];
    const ack = await this.#submit(submission('device', { commands }));
    this.#model.record();
    if (this.#model.isEmergency || powerKw > MAX_CHARGE_KW) {
      expect(ack).toMatchObject({ status: 'REJECTED', rejectionCode: 'CONSTRAINT_VIOLATION' });
    }
  }

  async submitEmergency(type: EmergencyType): Promise<void> {
    const one = submission('emergency', { type });
    await this.#submit(one);
    this.#model.addEmergency(one.messageId);
  }

  async submitMode(mode: OperatingMode, lastsMs: number | null): Promise<void> {
    const untilMs = lastsMs === null ? null : this.now + lastsMs;
    const reason = crypto.randomUUID();
    const validUntil = untilMs === null ? {} : { validUntil: formatInstant(untilMs) };
    await this.#submit(submission('mode', { mode, reason, ...validUntil }));
    this.#modes.set(reason, { order: this.#model.record(), mode, untilMs });
  }

  /** Submits an earlier publish again: it must get the same answer and have no other effect. */
  async repeat(pick: number): Promise<void> {
    const one = this.#submitted[pick % Math.max(1, this.#submitted.length)];
    if (!one) return;
    this.#passTo(this.now);
    const answer = await this.#partner.submit(one);
    this.#hear(answer.events);
  }

  async #submit(one: Submission): Promise<{ status: string }> {
    this.#passTo(this.now);
    this.#submitted.push(one);
    const answer = await this.#partner.submit(one);
    expect(answer.outcomes).toEqual(['recorded']);
    this.#hear(answer.events);
    const ack = answer.events.find((event) => event.kind === 'ack' && event.correlationId === one.messageId);
    return JSON.parse(ack?.payloadText ?? '{}');
  }

  // the gateway

  async answer(pick: number, status: DeviceAckStatus): Promise<void> {
    const open = [...this.#commands].filter(([, { isOpen }]) => isOpen);
    const [cmdId] = open[pick % Math.max(1, open.length)] ?? [];
    if (cmdId) await this.#acknowledge(cmdId, status);
  }

  async answerAll(): Promise<void> {
    for (const [cmdId, { isOpen }] of this.#commands) if (isOpen) await this.#acknowledge(cmdId, 'COMPLETED');
  }

  /** Sends a second or a late ack. */
  async answerAgain(pick: number): Promise<void> {
    const answered = [...this.#commands].filter(([, { isOpen }]) => !isOpen);
    const [cmdId] = answered[pick % Math.max(1, answered.length)] ?? [];
    if (cmdId && this.#link) await sendAck(this.#link, this.#plant.gateway, cmdId, 'COMPLETED');
  }

  async sendTelemetry(gridPowerKw: number): Promise<void> {
    if (this.#link) await sendTelemetry(this.#link, this.#plant.gateway, { gridPowerKw });
  }

  /** The gateway says whether it runs by its fallback. */
  async sendFallback(fallbackActive: number): Promise<void> {
    if (!this.#link) return;
    await sendTelemetry(this.#link, this.#plant.gateway, { fallbackActive });
    this.#fallback.isActive = fallbackActive !== 0;
    this.#fallback.isSure = false;
  }

  async come(): Promise<void> {
    if (this.#link) return;
    this.#passTo(this.now);
    this.#link = await connectListening(this.#plant);
    this.#fallback.awaySinceMs = null;
    this.#fallback.isSure = true;
    this.#seen = 0;
    this.#leaptMs = 0;
  }

  async leave(): Promise<void> {
    if (this.#link) {
      this.#fallback.awaySinceMs = this.now;
      this.#fallback.isSure = true;
    }
    this.#link?.socket.close(1000, 'bye');
    this.#link = undefined;
    // The clock may leap next, so wait until the site has stored the disconnection.
    const there = `SELECT id FROM device WHERE connection_id IS NOT NULL`;
    await vi.waitFor(async () => expect(await rowsOf(this.#plant.id, there)).toEqual([]));
  }

  async #acknowledge(cmdId: string, status: DeviceAckStatus): Promise<void> {
    const known = this.#commands.get(cmdId);
    if (!known || !this.#link) return;
    this.#passTo(this.now);
    await sendAck(this.#link, this.#plant.gateway, cmdId, status);
    const { command, isTaken } = known;
    const mode = this.#modes.get(this.#modeReasons.get(cmdId) ?? '');
    if (mode && status !== 'FAILED' && !isTaken && (await this.#isTakenMode(mode))) {
      this.#model.takeMode(mode.order, mode.mode, mode.untilMs);
      const isUnaffected =
        this.#model.isEmergency || this.#doing?.by === 'entry' || this.#doing?.by === 'slot';
      if (!isUnaffected) this.#doing = { by: 'mode', mode: this.#model.mode };
    }
    const messageId = this.#schedules.get(String(command.payload.scheduleId));
    const isSet = command.action === 'SCHEDULE_SET' && status !== 'FAILED' && !isTaken;
    if (messageId && isSet && (await this.#isTakenSchedule(String(command.payload.scheduleId))))
      this.#model.takeSchedule(messageId);
    const isOpen = status === 'RECEIVED' || status === 'IN_PROGRESS';
    this.#commands.set(cmdId, { command, isOpen, isTaken: isTaken || status !== 'FAILED' });
  }

  /** Whether the ack took effect: it has none on a command that had already ended. */
  async #isTakenMode(mode: Mode): Promise<boolean> {
    const reason = [...this.#modes].find(([, other]) => other === mode)?.[0];
    const rows = await rowsOf<{ status: string }>(
      this.#plant.id,
      `SELECT status FROM command WHERE payload LIKE '%${reason}%'`,
    );
    return rows[0]?.status === 'EXECUTING' || rows[0]?.status === 'COMPLETED';
  }

  async #isTakenSchedule(scheduleId: string): Promise<boolean> {
    const sql = `SELECT schedule.status, command.reason FROM schedule
      JOIN command ON command.sequence = schedule.command_sequence WHERE schedule.id = '${scheduleId}'`;
    const [row] = await rowsOf<Pick<LogRow, 'status' | 'reason'>>(this.#plant.id, sql);
    // A schedule that the gateway took can be FAILED at once, because none of its slots is within the limit.
    return row?.status === 'FAILED' ? /skipped/.test(row.reason ?? '') : row?.status !== 'PENDING';
  }

  // time and the platform

  /** Lets time pass; a connected gateway sends messages meanwhile. */
  async pass(ms: number): Promise<void> {
    if (this.#isAsleep) {
      // The site does its overdue work first.
      this.#passTo(this.now);
      this.#model.skipUnfit();
      this.#isAsleep = false;
    }
    for (let passedMs = 0; passedMs < ms; passedMs += LIFE_MS) {
      await passTime(this.#plant.id, Math.min(LIFE_MS, ms - passedMs));
      if (this.#link) await sendAck(this.#link, this.#plant.gateway, 'none', 'RECEIVED');
    }
  }

  #passTo(nowMs: number): void {
    this.#model.passTo(nowMs, !this.#isAsleep);
  }

  /** Moves the clock without running alarms: overdue work runs late, and other calls may come before it. */
  async leap(ms: number): Promise<void> {
    setClock(this.now + ms);
    this.#isLeaping = true;
    this.#isAsleep = true;
    this.#leaptMs += ms;
    if (this.#leaptMs >= SESSION_MS) await this.leave();
  }

  async evict(): Promise<void> {
    await evictSite(this.#plant.id);
    // A real bridge pings; here a message shows that the session is open.
    if (this.#link) await sendAck(this.#link, this.#plant.gateway, 'none', 'RECEIVED');
  }

  /** Ends the walk with an emergency: every command must then have ended, with one answer each. */
  async end(): Promise<void> {
    await this.come();
    await this.submitMode('STANDARD', null);
    await this.#read();
    await this.answerAll();
    await this.check();
    for (const [scheduleId, messageId] of this.#schedules)
      if (this.#model.openSchedules().includes(messageId))
        await this.cancelSchedule([...this.#schedules.keys()].indexOf(scheduleId));
    await this.#read();
    await this.answerAll();
    await this.submitEmergency('STOP');
    for (let round = 0; round < 2; round++) {
      await this.#read();
      await this.answerAll();
      await this.pass(SECOND);
    }
    await this.check();
    for (const row of (await this.#look()).rows)
      expect([row, TERMINAL.includes(row.status)]).toEqual([row, true]);
    this.#checkEvents();
    await this.leave();
    this.#hearing.mockRestore();
    await evictSite(this.#plant.id);
  }

  // what must hold

  async check(): Promise<void> {
    if (this.#isLeaping) {
      this.#isLeaping = false;
      return;
    }
    let site = await this.#look();
    if (site.dueMs !== null && site.dueMs <= this.now) {
      await passTime(this.#plant.id, 0);
      site = await this.#look();
    }
    await this.#read();
    this.#checkRows(site.rows, this.#dropped(site.alarms));
    must(site.incoherent === 0, 'a schedule says something else than its command');
    this.#checkFallback(site.isEngaged);
    this.#isAsleep = false;
    if (!this.#link) return;
    this.#checkDoing();
    this.#checkLimit(site.rows);
  }

  /** Reads the commands that the gateway received since the last read. */
  async #read(): Promise<void> {
    if (!this.#link) return;
    await sendAck(this.#link, this.#plant.gateway, 'none', 'RECEIVED');
    this.#leaptMs = 0;
    const commands = commandsOf(this.#link);
    const modes = await rowsOf<{ cmd_id: string; reason: string }>(this.#plant.id, MODES);
    for (const { cmd_id: cmdId, reason } of modes) this.#modeReasons.set(cmdId, reason);
    for (const command of commands.slice(this.#seen)) this.#obey(command);
    this.#seen = commands.length;
  }

  #obey(command: ReceivedCommand): void {
    const { cmdId, action, payload } = command;
    const known = this.#commands.get(cmdId);
    this.#commands.set(cmdId, { command, isOpen: known?.isOpen ?? true, isTaken: known?.isTaken ?? false });
    const scheduled = this.#schedules.get(String(payload.scheduleId));
    if (scheduled && payload.slotIndex !== undefined) {
      expect(Math.abs(Number(payload.targetSignedKw ?? 0))).toBeLessThanOrEqual(this.#hardKw);
      this.#doing = { by: 'slot', messageId: scheduled, slotIndex: Number(payload.slotIndex) };
    } else if (action === 'SITE_SETPOINT') {
      const kw = Number(payload.targetSignedKw);
      expect(Math.abs(kw)).toBeLessThanOrEqual(this.#hardKw);
      const messageId = this.#setpoints.get(Math.round(kw * 1_000)) ?? 'unknown';
      this.#doing = { by: 'entry', messageId };
    } else if (action.startsWith('EMERGENCY')) this.#doing = { by: 'emergency' };
    else if (action === 'MODE_CHANGE' && (!this.#modeReasons.has(cmdId) || this.#isSetpoint())) {
      // The plan sent the mode, or a partner's mode ended a setpoint or slot on the device.
      this.#doing = { by: 'mode', mode: String(payload.mode) };
    } else if (action === 'CONFIG_SET') {
      this.#commandedKw = (payload.constraints as { maxImportKw: number }).maxImportKw;
    } else if (action === 'BESS_CHARGE') {
      const [target] = payload.targets as { params: { powerKw: number } }[];
      expect(target?.params.powerKw).toBeLessThanOrEqual(MAX_CHARGE_KW);
    }
  }

  #isSetpoint(): boolean {
    return this.#doing?.by === 'entry' || this.#doing?.by === 'slot';
  }

  /** The alarm is raised while its state lasts. The site may need some seconds to notice a change. */
  #checkFallback(isEngaged: boolean): void {
    const { afterMs, awaySinceMs, isActive, isSure, wanted } = this.#fallback;
    const isAway = afterMs !== null && awaySinceMs !== null && this.now - awaySinceMs >= afterMs;
    const isWanted = isActive || isAway;
    if (wanted.is !== isWanted) this.#fallback.wanted = { is: isWanted, sinceMs: this.now };
    if (isSure && this.now - this.#fallback.wanted.sinceMs > WORKED_OUT_MS)
      must(isEngaged === isWanted, { isEngaged, ...this.#fallback, now: this.now });
  }

  /** The gateway does what the model expects. */
  #checkDoing(): void {
    const wanted = this.#model.doing();
    const doing = this.#doing ?? { by: 'mode', mode: this.#model.mode };
    // While the gateway has not answered a mode command, the plan sends no other mode.
    const isModeOpen = [...this.#commands].some(
      ([cmdId, { isTaken }]) => this.#modeReasons.has(cmdId) && !isTaken,
    );
    if (isModeOpen && wanted.by === 'mode') expect(doing.by).toBe('mode');
    else expect(doing).toEqual(wanted);
  }

  /** A connected gateway has received the limit in force, unless the configuration ended QUEUE_FULL. */
  #checkLimit(rows: readonly LogRow[]): void {
    const last = rows.findLast((row) => row.command_type === 'CONFIG');
    if (last && last.reason !== 'QUEUE_FULL')
      must(this.#commandedKw === this.#limitKw, [last, this.#commandedKw]);
  }

  #checkRows(rows: readonly LogRow[], dropped: readonly Chance[]): void {
    const chances = [...this.#failedByChance(rows), ...dropped];
    for (const { messageId, atMs, slotIndex } of chances.sort((left, right) => left.atMs - right.atMs)) {
      this.#passTo(atMs);
      if (slotIndex === undefined) this.#model.fail(messageId, 'by chance');
      else this.#model.failSlot(messageId, slotIndex);
    }
    this.#passTo(this.now);
    this.#model.skipUnfit();
    const messageIds = new Map(rows.map(({ id, message_id }) => [id, message_id]));
    must(messageIds.size === new Set(messageIds.values()).size, 'one row for each message');
    for (const row of rows) {
      const outcome = `${row.status} ${row.reason}`;
      const before = this.#ended.get(row.id);
      if (before) must(outcome === before, { row, before });
      else if (TERMINAL.includes(row.status)) this.#ended.set(row.id, outcome);
      if (row.command_type === 'SITE_SETPOINT') this.#checkSetpoint(row, messageIds);
      if (row.command_type === 'SCHEDULE') this.#checkSchedule(row);
    }
  }

  /** Commands that the gateway rejected or did not answer, which the model cannot predict. */
  #failedByChance(rows: readonly LogRow[]): Chance[] {
    const failed = rows.filter((row) => row.status === 'FAILED' && this.#isByChance(row));
    return failed.map((row) => ({ messageId: row.message_id, atMs: row.finished_at_ms ?? 0 }));
  }

  /** The same for commands that already had their verdict: an alarm reports that they are no longer active. */
  #dropped(waiting: readonly AlarmRow[]): Chance[] {
    const received = [...this.#events.values()].map(({ correlationId, atMs, payloadText }) => ({
      correlation_id: correlationId,
      at_ms: atMs,
      payload: payloadText,
    }));
    const alarms = [...waiting, ...received].filter(({ payload }) => payload.includes('is no longer active'));
    return alarms.map(({ correlation_id, at_ms, payload }) => {
      const [, slot] = /SCHEDULE slot (\d+)/.exec(payload) ?? [];
      const chance = { messageId: correlation_id ?? '', atMs: at_ms };
      return slot === undefined ? chance : { ...chance, slotIndex: Number(slot) };
    });
  }

  #isByChance({ reason, command_type }: LogRow): boolean {
    if (command_type === 'SCHEDULE' && reason === 'QUEUE_FULL') return true;
    return reason === 'NO_ACK' || reason === `${this.#plant.gateway.id}: device answered FAILED`;
  }

  #checkSetpoint(row: LogRow, messageIds: ReadonlyMap<string, string>): void {
    const { message_id: messageId, status } = row;
    if (status === 'REJECTED' || (status === 'FAILED' && this.#isByChance(row))) return;
    const [, by] = /^SUPERSEDED by (.*)$/.exec(row.reason ?? '') ?? [];
    const reason = by ? `SUPERSEDED by ${messageIds.get(by)}` : (row.reason ?? '');
    const foreseen = this.#model.endOf(messageId);
    const seen = { messageId, status, reason, foreseen };
    if (foreseen === undefined) must(status !== 'FAILED', seen);
    else if (status === 'FAILED') {
      must((foreseen === 'OVER' ? 'EXPIRED' : foreseen).split(' or ').includes(reason), seen);
    } else if (foreseen !== 'OVER' || !row.is_open) must(TERMINAL.includes(status), seen);
  }

  #checkSchedule(row: LogRow): void {
    const { message_id: messageId, status, reason } = row;
    const isKnown = [...this.#schedules.values()].includes(messageId);
    if (!isKnown || status === 'REJECTED' || (status === 'FAILED' && this.#isByChance(row))) return;
    const foreseen = this.#model.endOf(messageId);
    const seen = { messageId, status, reason, foreseen };
    if (foreseen === undefined) must(!TERMINAL.includes(status), seen);
    else if (foreseen === 'CANCELLED') must(status === 'FAILED' && reason === 'CANCELLED', seen);
    else must(status === 'COMPLETED' || (status === 'FAILED' && reason !== 'CANCELLED'), seen);
  }

  /** Reads the stored state of the site. */
  async #look(): Promise<Look> {
    return await runInDurableObject(siteOf(this.#plant.id), async (_site, { storage }) => ({
      dueMs: await storage.getAlarm(),
      incoherent: storage.sql.exec<{ count: number }>(INCOHERENT).one().count,
      isEngaged:
        storage.sql
          .exec(`SELECT 1 FROM fact WHERE name = 'alarms' AND value LIKE '%FALLBACK_ENGAGED%'`)
          .toArray().length > 0,
      rows: storage.sql
        .exec<LogRow>(
          `SELECT id, message_id, command_type, status, reason, finished_at_ms,
             sequence IN (SELECT command_sequence FROM dispatch) AS is_open FROM command`,
        )
        .toArray(),
      alarms: storage.sql
        .exec<AlarmRow>(`SELECT correlation_id, at_ms, payload FROM outbox WHERE kind = 'alarm'`)
        .toArray(),
    }));
  }

  #hear(events: readonly OutboxEvent[]): void {
    for (const event of events) this.#events.set(event.sequence, event);
  }

  /** Each message has one ack, at most one EXECUTING, which comes first, and one end. */
  #checkEvents(): void {
    const all = [...this.#events.values()].sort((left, right) => left.sequence - right.sequence);
    for (const { messageId } of this.#submitted) {
      const own = all.filter((event) => event.correlationId === messageId);
      const acks = new Set(
        own.filter(({ kind }) => kind === 'ack').map((event) => event.messageId + event.payloadText),
      );
      expect([messageId, acks.size]).toEqual([messageId, 1]);
      const executions = own.filter(({ kind }) => kind === 'execution');
      expect(new Set(executions.map((event) => event.messageId)).size).toBe(executions.length);
      const statuses = executions.map(({ payloadText }) => JSON.parse(payloadText).status as string);
      expect([messageId, ...statuses]).toSatisfy(
        () => /^(EXECUTING )?(COMPLETED|DEVIATED|FAILED)$/.test(statuses.join(' ')) || statuses.length === 0,
      );
    }
  }
}

/** Checks a condition after every step; `expect` for each row would take most of the time of the test. */
function must(holds: boolean, facts: unknown): void {
  if (!holds) expect.fail(`does not hold: ${JSON.stringify(facts)}`);
}
