/** The simulated plant as a process. Its parent sends it identity and behaviour, and ends it. */
import { readFileSync } from 'node:fs';
import { AdminClient } from '../admin-client.ts';
import { CONSTRAINTS, SUB_DEVICES } from '../seed.ts';
import type { BehaviourName } from './behaviour.ts';
import { Identity, type IdentityOptions } from './identity.ts';
import { Simulation } from './simulation.ts';
import { templatesOf } from './template.ts';

export interface SimulatorStart extends Omit<IdentityOptions, 'file'> {
  kind: 'start';
  behaviour: BehaviourName;
  host: string;
  port: number;
  caFile: string;
  /** The file in which the simulator stores its identity. */
  identityFile: string;
  intervalMs: number;
}

/** Changes the behaviour of the running simulation. */
export interface SimulatorChange {
  kind: 'behave';
  behaviour: BehaviourName;
}

/**
 * Messages to the parent. `provisioned`: once, at the start; `listening`: in each session, as soon as
 * commands reach the gateway; `behaves`: the requested behaviour is active.
 */
export type SimulatorWord =
  | { kind: 'provisioned' | 'listening' }
  | { kind: 'behaves'; behaviour: BehaviourName };

let simulation: Simulation | undefined;

function say(word: SimulatorWord): void {
  process.send?.(word);
}

async function start(options: SimulatorStart): Promise<void> {
  const { behaviour, host, port, caFile, identityFile, intervalMs, deviceId } = options;
  const identity = await Identity.ensure({ ...options, file: identityFile });
  say({ kind: 'provisioned' });
  simulation = new Simulation({
    behaviour,
    assets: SUB_DEVICES,
    constraints: CONSTRAINTS,
    intervalMs,
    token: () => identity.token,
    templates: async () => await templatesOf(await enter(options), deviceId),
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

async function enter({ edgeUrl, admin: login, organizationId }: SimulatorStart): Promise<AdminClient> {
  const admin = await AdminClient.enter(edgeUrl, login);
  admin.organizationId = organizationId;
  return admin;
}

async function obey(message: SimulatorStart | SimulatorChange): Promise<void> {
  if (message.kind === 'start') return await start(message);
  const { behaviour } = message;
  await simulation?.behave(behaviour);
  say({ kind: 'behaves', behaviour });
}

process.on('message', (message: SimulatorStart | SimulatorChange) => {
  obey(message).catch((error: unknown) => {
    // The parent restarts this process.
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
