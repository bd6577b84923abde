/** The simulated plant as a process: told by its parent who it is and how to behave, until the parent ends it. */
import { readFileSync } from 'node:fs';
import { CONSTRAINTS, SUB_DEVICES } from '../seed.ts';
import type { BehaviourName } from './behaviour.ts';
import { Identity, type IdentityOptions } from './identity.ts';
import { Simulation } from './simulation.ts';

export interface SimulatorStart extends Omit<IdentityOptions, 'file'> {
  kind: 'start';
  behaviour: BehaviourName;
  host: string;
  port: number;
  caFile: string;
  /** Where it keeps who it is. */
  identityFile: string;
  intervalMs: number;
}

/** From now on. */
export interface SimulatorChange {
  kind: 'behave';
  behaviour: BehaviourName;
}

/**
 * What it tells its parent: that it is provisioned, at its start; that commands reach it from here on, at each session; that
 * it behaves as it was told.
 */
export type SimulatorWord =
  | { kind: 'provisioned' | 'listening' }
  | { kind: 'behaves'; behaviour: BehaviourName };

let simulation: Simulation | undefined;

function say(word: SimulatorWord): void {
  process.send?.(word);
}

async function start(told: SimulatorStart): Promise<void> {
  const { behaviour, host, port, caFile, identityFile, intervalMs, deviceId } = told;
  const identity = await Identity.ensure({ ...told, file: identityFile });
  say({ kind: 'provisioned' });
  simulation = new Simulation({
    behaviour,
    assets: SUB_DEVICES,
    constraints: CONSTRAINTS,
    intervalMs,
    token: () => identity.token,
    gateway: {
      host,
      port,
      ca: readFileSync(caFile, 'utf8'),
      deviceId,
      hmacSecret: identity.hmacSecret,
      onToken: (token, expiresAt) => identity.takeToken(token, expiresAt),
      renew: () => identity.renew(),
      onListening: () => say({ kind: 'listening' }),
    },
  });
}

async function obey(message: SimulatorStart | SimulatorChange): Promise<void> {
  if (message.kind === 'start') return await start(message);
  const { behaviour } = message;
  await simulation?.behave(behaviour);
  say({ kind: 'behaves', behaviour });
}

process.on('message', (message: SimulatorStart | SimulatorChange) => {
  obey(message).catch((error: unknown) => {
    // Its parent starts it again.
    console.error(`simulator: ${String(error)}`);
    process.exit(1);
  });
});
process.on('disconnect', () => process.exit(0));
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.on(signal, () => {
    if (simulation) void simulation.stop().finally(() => process.exit(0));
    else process.exit(0);
  });
}
