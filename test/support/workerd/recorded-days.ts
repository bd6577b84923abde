/**
 * Three days of a plant, by scripts: their exports are what a replay must decide alike. The files in `test/recorded-days` are
 * exports of these scripts by earlier code [C-13.4].
 */
import { expect, vi } from 'vitest';
import type { ExportPart } from '../../../durable-objects/ask-rpc.ts';
import { sha256Hex } from '../../../durable-objects/secrets/hmac.ts';
import { chainedText, NO_LINE } from '../../../protocol/export.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { setScene } from './scene.ts';
import { DAY, HOUR, MINUTE, passTime, SECOND, setClock } from './site-clock.ts';
import { connectListening, sendAck, sendTelemetry } from './site-devices.ts';
import { PLANNED, type PlannedScene, planned, sentCommands } from './site-plan.ts';
import { crashSite, openSessions } from './site-rows.ts';
import { batch, batteryCommand, charge, submission } from './site-submissions.ts';
import { siteOf } from './world.ts';

/** The export of a plant as the route writes it, without the Worker. */
export async function exportOf(siteId: string, fromMs: number, toMs: number): Promise<string> {
  const lines: string[] = [];
  let prev = NO_LINE;
  const add = (line: object) => {
    const text = chainedText(line, prev);
    prev = sha256Hex(text);
    lines.push(text);
  };
  for (let atMs: number | null = fromMs; atMs !== null; ) {
    const query = { fromMs: atMs, toMs, ...(atMs === fromMs ? { isFirst: true as const } : {}) };
    const text = await siteOf(siteId).ask({ kind: 'export', siteId, query });
    const part = JSON.parse(text ?? '') as ExportPart;
    for (const line of part.lines) add(JSON.parse(line));
    atMs = part.nextMs;
  }
  add({ kind: 'end', lines: lines.length + 1 });
  return `${lines.join('\n')}\n`;
}

/** A plant that follows its commands, and sends a reading at each step. */
class Plant {
  readonly scene: PlannedScene;
  #link: PlannedScene['link'] | undefined;
  #seen = 0;
  #kw = 5;
  /** How far the plant is from its target. */
  offKw = 0;

  constructor(scene: PlannedScene) {
    this.scene = scene;
    this.#link = scene.link;
  }

  get id(): string {
    return this.scene.plant.id;
  }

  /** Lets time pass in steps: the plant acknowledges its commands and sends its readings. */
  async live(durationMs: number, stepMs = 5 * MINUTE): Promise<void> {
    const untilMs = Date.now() + durationMs;
    while (Date.now() < untilMs) {
      await this.obey();
      if (this.#link) {
        const reading = { gridPowerKw: this.#kw + this.offKw, 'BESS-1/socPercent': 50 };
        await sendTelemetry(this.#link, this.scene.plant.gateway, reading);
      }
      await passTime(this.id, Math.min(stepMs, untilMs - Date.now()));
    }
    await this.obey();
  }

  async obey(): Promise<void> {
    if (!this.#link) return;
    const all = await sentCommands(this.#link, this.scene.plant);
    for (const { cmdId, action, payload } of all.slice(this.#seen)) {
      if (action === 'SITE_SETPOINT') this.#kw = Number(payload.targetSignedKw);
      await sendAck(this.#link, this.scene.plant.gateway, cmdId, 'RECEIVED');
      await sendAck(this.#link, this.scene.plant.gateway, cmdId, 'COMPLETED');
    }
    this.#seen = all.length;
  }

  async send(...commands: Parameters<PlannedScene['partner']['submit']>): Promise<void> {
    await this.scene.partner.submit(...commands);
    await this.obey();
  }

  async leave(): Promise<void> {
    this.#link?.socket.close(1000, 'bye');
    this.#link = undefined;
    await vi.waitFor(async () => expect(await openSessions(this.id)).toBe(0));
  }

  async come(): Promise<void> {
    this.#link = await connectListening(this.scene.plant);
    this.#seen = 0;
    await this.obey();
  }

  async crash(): Promise<void> {
    await crashSite(this.id);
    await this.come();
  }
}

/** 25 hours in Prague: slots of an hour, the clock goes back, and a second schedule replaces a part of the first. */
async function slots(plant: Plant): Promise<void> {
  const startMs = Date.now();
  const scheduleOf = (fromMs: number, values: readonly number[]) =>
    submission('schedule', {
      startTime: formatInstant(fromMs),
      slotDurationMinutes: 60,
      slots: values.map((value, slotIndex) => ({
        ...{ slotIndex, mode: slotIndex % 5 === 4 ? 'PEAK_SHAVING' : 'STANDARD' },
        ...(slotIndex % 5 === 4 ? {} : { setpoint: { value } }),
      })),
    });
  await plant.send(planned(5, 'NORMAL'));
  await plant.send(
    scheduleOf(
      startMs + HOUR,
      Array.from({ length: 25 }, (_, hour) => 10 + hour),
    ),
  );
  await plant.live(6 * HOUR, 15 * MINUTE);
  await plant.send(scheduleOf(startMs + 8 * HOUR, [40, 41, 42]));
  await plant.live(3 * HOUR, 15 * MINUTE);
  await plant.send(planned(60, 'HIGH', { forMs: 90 * MINUTE }));
  await plant.live(6 * HOUR, 15 * MINUTE);
  await plant.send(scheduleOf(startMs + 20 * HOUR, [500]));
  await plant.live(25 * HOUR - (Date.now() - startMs), 15 * MINUTE);
}

/** Setpoints of all levels that displace each other, batteries, wrong commands, emergencies and modes. */
async function displacements(plant: Plant): Promise<void> {
  const startMs = Date.now();
  for (let hour = 0; hour < 8; hour++) {
    await plant.send(planned(5 + hour, 'NORMAL', { forMs: 3 * HOUR }));
    await plant.live(10 * MINUTE);
    plant.offKw = hour === 5 ? 8 : 0;
    await plant.send(planned(20 + hour, 'HIGH', { inMs: 5 * MINUTE, forMs: 30 * MINUTE }));
    await plant.live(20 * MINUTE);
    await plant.send(
      charge(10 + 5 * hour),
      charge(80),
      submission('device', batch(batteryCommand(5, { deviceId: 'NONE' }))),
    );
    await plant.send(
      planned(150, 'HIGH'),
      planned(10, 'HIGH', { forMs: -HOUR }),
      submission('mode', { mode: 'NO_MODE' }),
    );
    await plant.send(charge(5, { signature: 'mismatch' }), charge(5, { timestampMs: Date.now() - HOUR }));
    if (hour % 4 === 1) {
      await plant.send(planned(30, 'EMERGENCY', { forMs: 10 * MINUTE }));
      await plant.live(15 * MINUTE);
    }
    if (hour % 4 === 3) {
      await plant.send(submission('emergency', { type: hour === 3 ? 'STOP' : 'HOLD' }));
      await plant.send(charge(5), planned(10, 'HIGH'));
      await plant.live(10 * MINUTE);
      await plant.send(submission('mode', { mode: 'STANDARD' }));
    }
    if (hour === 6) await plant.send(submission('config', { constraints: { maxImportKw: 60 } }));
    await plant.live(startMs + (hour + 1) * HOUR - Date.now());
  }
  await plant.live(16 * HOUR, HOUR);
}

/** The gateway is away, the edge restarts, commands wait and expire, and the fallback is engaged. */
async function outages(plant: Plant): Promise<void> {
  const startMs = Date.now();
  await plant.send(planned(10, 'NORMAL'));
  await plant.live(HOUR);
  await plant.leave();
  await plant.send(planned(20, 'HIGH', { forMs: 2 * HOUR }), charge(5));
  await plant.live(HOUR);
  await plant.come();
  await plant.live(2 * HOUR);
  await plant.crash();
  await plant.live(HOUR);
  await plant.leave();
  await plant.send(planned(30, 'HIGH', { forMs: 30 * MINUTE }), submission('mode', { mode: 'PEAK_SHAVING' }));
  await plant.live(3 * HOUR, 30 * MINUTE);
  await plant.send(submission('emergency', { type: 'STOP' }));
  await plant.live(HOUR, 30 * MINUTE);
  await plant.come();
  await plant.live(HOUR);
  await plant.send(submission('mode', { mode: 'STANDARD' }), planned(15, 'NORMAL'));
  await plant.live(startMs + DAY - Date.now(), 30 * MINUTE);
}

const SCRIPTS = {
  // The last Sunday of October 2030: at 03:00 in Prague the clock goes back to 02:00.
  slots: { startMs: Date.parse('2030-10-26T22:00:00.000Z'), run: slots, lastsMs: 25 * HOUR },
  displacements: { startMs: Date.parse('2030-06-03T00:00:00.000Z'), run: displacements, lastsMs: DAY },
  outages: { startMs: Date.parse('2030-07-01T00:00:00.000Z'), run: outages, lastsMs: DAY },
} as const;
export type RecordedDay = keyof typeof SCRIPTS;
export const RECORDED_DAYS = Object.keys(SCRIPTS) as RecordedDay[];

/** Runs the script of a day and returns its export. */
export async function recordDay(day: RecordedDay): Promise<string> {
  const { startMs, run, lastsMs } = SCRIPTS[day];
  setClock(startMs);
  const scene = await setScene(PLANNED);
  await run(new Plant(scene));
  await passTime(scene.plant.id, 30 * MINUTE + SECOND);
  return await exportOf(scene.plant.id, startMs, startMs + lastsMs);
}
