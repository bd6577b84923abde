/** A site whose plan a test follows: its submissions, the commands to its gateway, and the events to its partner. */
import type { Submission } from '../../../durable-objects/rpc.ts';
import type { CommandLogEntry } from '../../../protocol/command-log.ts';
import type { DeviceAckStatus } from '../../../protocol/enums.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { DeviceTestLink } from './links.ts';
import type { LinkedScene, ListenedScene } from './scene.ts';
import { passUntilSent } from './site-clock.ts';
import { commandsOf, nthCommand, type ReceivedCommand, sendAck } from './site-devices.ts';
import { readCommands } from './site-reads.ts';
import { powerSetpoint, submission } from './site-submissions.ts';
import type { Plant } from './world.ts';

/** A site whose gateway has never connected, and whose partner consumes all events; both answer pings. */
export const AWAY = { plant: true, partner: 'listening', pings: 'answered' } as const;

/** The same, with a gateway that is subscribed. */
export const PLANNED = { ...AWAY, gateway: 'listening' } as const;

export type PlannedScene = ListenedScene & LinkedScene;

/** The publish of a setpoint that imports this power, with a window relative to now. */
export function planned(
  kw: number,
  priority: 'NORMAL' | 'HIGH' | 'EMERGENCY',
  window: { inMs?: number; forMs?: number } = {},
  changes: Parameters<typeof powerSetpoint>[1] = {},
): Submission {
  const fromMs = Date.now() + (window.inMs ?? 0);
  const validUntil = window.forMs === undefined ? {} : { validUntil: formatInstant(fromMs + window.forMs) };
  const validFrom = formatInstant(fromMs);
  return submission('site-setpoint', powerSetpoint(kw, { priority, validFrom, ...validUntil, ...changes }));
}

/** All commands that a link has received; the site has none left to send. */
export async function sentCommands(link: DeviceTestLink, plant: Plant): Promise<ReceivedCommand[]> {
  // Commands that the first frame causes are sent before the answer to the second frame.
  for (let frame = 0; frame < 2; frame++) await sendAck(link, plant.gateway, 'none', 'RECEIVED');
  return commandsOf(link);
}

/** The same commands in short form: the signed kW of a setpoint, the name of a mode, the action of any other. */
export async function sentTo(link: DeviceTestLink, plant: Plant): Promise<unknown[]> {
  const commands = await sentCommands(link, plant);
  return commands.map(({ action, payload }) => {
    if (action === 'SITE_SETPOINT') return payload.targetSignedKw;
    return action === 'MODE_CHANGE' ? payload.mode : action;
  });
}

/** The gateway acknowledges the n-th command that it receives; returns that command. */
export async function obey(
  { link, plant }: Pick<PlannedScene, 'link' | 'plant'>,
  n: number,
  ...statuses: DeviceAckStatus[]
): Promise<ReceivedCommand> {
  const command = await nthCommand(link, n);
  for (const status of statuses.length === 0 ? (['RECEIVED'] as const) : statuses) {
    await sendAck(link, plant.gateway, command.cmdId, status);
  }
  return command;
}

/** The log row of a publish. */
export async function rowOf(plant: Plant, { messageId }: Submission): Promise<CommandLogEntry> {
  const { items } = await readCommands(plant.id, 1, 500);
  const row = items.find((one) => one.messageId === messageId);
  if (!row) throw new Error(`${messageId} is not in the command log`);
  return row;
}

/** The status of a publish, with its reason if it has one. */
export async function endOf(plant: Plant, publish: Submission): Promise<string> {
  const { status, reason } = await rowOf(plant, publish);
  return reason === undefined ? status : `${status} ${reason}`;
}

/** Lets the site send its partner all waiting events, which takes a few seconds of the clock. */
export async function deliverEvents({ plant, listener }: ListenedScene): Promise<void> {
  await passUntilSent(plant.id);
  await listener.quiet();
}

/** The payloads of the execution events that the partner received for a publish, in order. */
export async function executionsOf(
  scene: ListenedScene,
  { correlationId, messageId }: Submission,
): Promise<Record<string, unknown>[]> {
  await deliverEvents(scene);
  const about = correlationId ?? messageId;
  const events = scene.listener.events('execution').filter((event) => event.correlationId === about);
  return events.map(({ payload }) => payload);
}

/** The statuses of those events, in order, each with its reason if it has one. */
export async function executionStatuses(scene: ListenedScene, publish: Submission): Promise<string[]> {
  const events = await executionsOf(scene, publish);
  return events.map(({ status, reason }) => (reason === undefined ? `${status}` : `${status} ${reason}`));
}

/** The payloads of the alarms that the partner received, in order. */
export async function receivedAlarms(scene: ListenedScene): Promise<Record<string, unknown>[]> {
  await deliverEvents(scene);
  return scene.listener.events('alarm').map(({ payload }) => payload);
}
