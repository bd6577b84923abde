/**
 * A separate process: a partner that publishes commands as fast as it can, from `flood` to `stop`, and the
 * devices of its plants.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { PartnerOptions } from '../partner.ts';
import type { SeededPlant } from '../seed.ts';
import { connectInstantDevice } from './instant-device.ts';
import { repeat } from './plant-load.ts';
import { ReturningPartner } from './returning-partner.ts';

export interface FlooderStart {
  kind: 'start';
  partner: PartnerOptions;
  mqttsPort: number;
  ca: string;
  plants: { plant: SeededPlant; token: string }[];
}

export type FlooderOrder = FlooderStart | { kind: 'flood' } | { kind: 'stop' };

/** `idle`: all publishes have been answered. */
export type FlooderWord =
  | { kind: 'ready' }
  | { kind: 'stopped'; confirmed: number; refused: number; lost: number; seconds: number }
  | { kind: 'idle'; drainSeconds: number };

/** Maximum number of unanswered publishes: many times what the bridge accepts. */
const OPEN_PUBLISHES = 1_024;
/** Pause after a rejected publish or one without a connection. */
const REFUSED_PAUSE_MS = 100;

let run: { plants: SeededPlant[]; partner: ReturningPartner } | undefined;
let isFlooding = false;

function say(word: FlooderWord): void {
  process.send?.(word);
}

async function start(order: FlooderStart): Promise<void> {
  for (const { plant, token } of order.plants) {
    const side = { ca: order.ca, ports: { mqtts: order.mqttsPort }, token: async () => token };
    await connectInstantDevice(side, plant);
  }
  run = {
    plants: order.plants.map(({ plant }) => plant),
    partner: await ReturningPartner.start(order.partner),
  };
  say({ kind: 'ready' });
}

async function flood(): Promise<void> {
  if (!run) return;
  const { plants, partner } = run;
  isFlooding = true;
  let turn = 0;
  let [confirmed, refused] = [0, 0];
  const startedAt = performance.now();
  let stoppedAt = startedAt;
  const publish = async () => {
    try {
      await partner.confirmed(plants[turn++ % plants.length] as SeededPlant);
      confirmed += 1;
    } catch {
      refused += 1;
      await pause(REFUSED_PAUSE_MS);
    }
  };
  const isOver = () => {
    if (isFlooding) return false;
    if (stoppedAt === startedAt) {
      stoppedAt = performance.now();
      say({
        kind: 'stopped',
        confirmed,
        refused,
        lost: partner.lost,
        seconds: (stoppedAt - startedAt) / 1_000,
      });
    }
    return true;
  };
  await repeat(OPEN_PUBLISHES, isOver, publish);
  say({ kind: 'idle', drainSeconds: (performance.now() - stoppedAt) / 1_000 });
}

process.on('message', (order: FlooderOrder) => {
  if (order.kind === 'start') void start(order);
  else if (order.kind === 'flood') void flood();
  else isFlooding = false;
});
process.on('disconnect', () => process.exit(0));
