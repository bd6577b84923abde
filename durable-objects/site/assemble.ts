/**
 * Puts one site together, once a wake: each noun gets the collaborators that it names. Nothing else sees the whole site;
 * only `durable-objects/site.ts` imports this file.
 */
import { LIMIT } from '../../protocol/limits.ts';
import type { Env, VhostStub } from '../env.ts';
import { OwnCounts } from '../figures/counts.ts';
import { Reporter } from '../figures/reporter.ts';
import { figuresOf } from '../figures/stub.ts';
import type { DueSource } from '../object/agenda.ts';
import { Calls } from '../object/calls.ts';
import { Clock } from '../object/clock.ts';
import { Facts } from '../object/facts.ts';
import { reasonOf } from '../object/reason.ts';
import { SeenConnections } from '../object/seen-connections.ts';
import { Sql } from '../object/sql.ts';
import { Stubs } from '../object/stubs.ts';
import { Turns } from '../object/turn.ts';
import { PlantCopy, type SubDevice } from '../registry/plant-copy.ts';
import type { PassingEvent } from '../rpc.ts';
import { SecretBox } from '../secrets/secret-box.ts';
import { Alerts } from './alert/alerts.ts';
import { BatteryDemands } from './command/battery-demands.ts';
import { Commands } from './command/commands.ts';
import { MessageIdRows } from './command/message-ids.ts';
import { CommandRows } from './command/rows.ts';
import { Submissions } from './command/submissions.ts';
import { Configuration } from './config/configuration.ts';
import { ConfigurationState } from './config/state.ts';
import { DeviceTables } from './device/device-tables.ts';
import { Devices } from './device/devices.ts';
import { DiagnosticsRows } from './device/diagnostics-rows.ts';
import { DeviceRows } from './device/rows.ts';
import { SecretRows } from './device/secret-rows.ts';
import { DeviceSecrets } from './device/secrets.ts';
import { servesSite } from './device/serving.ts';
import { DeviceSessions } from './device/sessions.ts';
import { Dispatches } from './dispatch/dispatches.ts';
import { DispatchRows } from './dispatch/rows.ts';
import { CommandSender } from './dispatch/sender.ts';
import { destinationOf } from './event/destinations.ts';
import { Events } from './event/events.ts';
import { Outbox } from './event/outbox.ts';
import { OutboxRows } from './event/rows.ts';
import { StandingAlarms } from './event/standing-alarms.ts';
import { type SiteFact, SiteIdentity } from './identity.ts';
import { DeviceLifecycle } from './lifecycle/device.ts';
import { plantChanged } from './lifecycle/plant.ts';
import { Serving } from './lifecycle/serving.ts';
import { DeviceLink } from './link/accept.ts';
import { DeviceReceiver } from './link/receive.ts';
import { TokenRefresh } from './link/token-refresh.ts';
import { makeOwners } from './owners.ts';
import { Plan } from './plan/plan.ts';
import { PlanState } from './plan/state.ts';
import { Presence } from './presence/presence.ts';
import { RestCommands } from './rest-command/rest-commands.ts';
import { RestCommandRows } from './rest-command/rows.ts';
import { Retention, siteBudgets } from './retention.ts';
import { ScheduleRows } from './schedule/rows.ts';
import { Schedules } from './schedule/schedules.ts';
import { TelemetryFeed } from './telemetry/feed.ts';
import { Journal } from './telemetry/journal.ts';
import { MovedNonces } from './telemetry/moved-nonces.ts';
import { JournalRows } from './telemetry/rows.ts';
import type { SignalOrigin } from './telemetry/snapshot.ts';
import { TelemetryStore } from './telemetry/store.ts';
import { viewOncePerTurn } from './view.ts';

export type AssembledSite = ReturnType<typeof assembleSite>;

/** `onChange`: due times may have changed. */
export function assembleSite(ctx: DurableObjectState, env: Env, onChange: () => void) {
  const clock = new Clock();
  const sql = new Sql(ctx.storage);
  const facts = new Facts<SiteFact>(sql);
  const keepAlive = (work: Promise<void>) => ctx.waitUntil(work);

  // turns and what leaves the object
  const turns: Turns = new Turns(ctx, clock, {
    ending: (turn) => {
      plan.settle(turn);
      outbox.write(turn);
    },
    ended: () => {
      outbox.drainWritten(() => ctx.storage.sync());
      counts.report();
      onChange();
    },
  });
  const calls = new Calls(clock, onChange);
  const counts = new OwnCounts({ clock, report: (batch) => figuresOf(env).add(batch), keepAlive });
  const identity = new SiteIdentity(facts, turns);
  const vhosts = new Stubs<VhostStub>((keyId) => env.VHOST.get(env.VHOST.idFromName(keyId)));
  const destination = destinationOf({ database: env.DB, vhosts, siteId: () => identity.known ?? '' });
  const outboxRows = new OutboxRows(sql);
  const outbox = new Outbox(outboxRows, { clock, turns, calls, destination, keepAlive, changed: onChange });
  const registry: PlantCopy = new PlantCopy(facts, {
    clock,
    turns,
    database: env.DB,
    siteId: () => identity.known,
    keepAlive,
    onChange: (turn, isGone) => plantChanged(turn, plantHost(), isGone),
  });
  const events = new Events({ outbox, counts, registry });

  // devices
  const secrets = new DeviceSecrets(new SecretRows(sql), new SecretBox(env.DATA_KEYS));
  const devices = new Devices(new DeviceRows(sql), secrets);
  const diagnostics = new DiagnosticsRows(sql);
  const sessions: DeviceSessions = new DeviceSessions(ctx, devices, new SeenConnections(sql), (turn) =>
    presence.update(turn),
  );

  // telemetry
  const movedNonces = new MovedNonces(sql);
  const journalRows = new JournalRows(sql, () => store.state.packedBlock);
  const journal = new Journal(journalRows, facts, {
    clock,
    origin: (deviceId) => originOf(deviceId, devices, registry),
    isSubDevice: (externalId) => registry.isSubDevice(externalId),
    movedNonces: () => movedNonces.all(),
  });
  const store: TelemetryStore = new TelemetryStore(sql, facts, journal);

  // stored state that the rules see
  const configurationState = new ConfigurationState(facts);
  const demands = new BatteryDemands(facts);
  const commandRows = new CommandRows(sql);
  const messageIds = new MessageIdRows(sql);
  const scheduleRows = new ScheduleRows(sql);
  const planState = new PlanState(sql, facts, configurationState, scheduleRows);
  const alarms = new StandingAlarms(facts, registry, outbox, counts);
  const presence: Presence = new Presence({
    ...{ facts, devices, registry, journal, outbox, alarms },
    config: () => configurationState.config,
    quietSinceMs: (id) => sessions.quietSinceMs(id),
  });
  const alerts = new Alerts({ registry, journal, outbox });
  const feed = new TelemetryFeed(
    {
      clock,
      identity,
      registry,
      journal,
      sessions,
      operatingMode: (now) => configurationState.operatingMode(now),
    },
    (keyId, siteId, event) => ctx.waitUntil(deliverPassing(vhosts, keyId, siteId, event)),
  );
  const view = viewOncePerTurn({
    ...{ registry, configuration: configurationState, plan: planState, demands, schedules: scheduleRows },
    ...{ devices, sessions, presence, journal },
  });

  // commands, their dispatches, and what they change
  const sender = new CommandSender(clock, devices, secrets, sessions);
  const dispatches: Dispatches = new Dispatches({
    ...{ rows: new DispatchRows(sql), devices, sessions, sender, view, log: commandRows },
    owner: (name) => owners[name],
  });
  const commands: Commands = new Commands({
    ...{ rows: commandRows, events, dispatches },
    forget: (turn, sequence) => {
      owners.SITE_SETPOINT.forget(turn, sequence);
      owners.MODE_CHANGE.forget(turn, sequence);
      owners.SCHEDULE.forget(turn, sequence);
    },
  });
  const schedules = new Schedules({
    ...{ rows: scheduleRows, commands, dispatches, events, view },
    changed: () => planState.touch(),
  });
  const plan: Plan = new Plan({
    ...{ clock, state: planState, commands, dispatches, schedules, demands, events, journal, registry, view },
    endsWithEmergency: ({ owner }) => !owners[owner].survivesEmergency,
  });
  const configuration = new Configuration({
    ...{ state: configurationState, commands, dispatches, plan, schedules, view },
    presenceChanged: () => presence.noteChange(),
  });
  const restCommands = new RestCommands({ rows: new RestCommandRows(sql), devices, dispatches, outbox });
  const owners = makeOwners({
    ...{ commands, dispatches, events, view, plan, schedules, configuration, demands, restCommands },
  });
  const submissions = new Submissions({ rows: commandRows, messageIds, dispatches, events, owners, view });

  // devices that connect, leave and move
  const serving = new Serving({ devices, sessions, dispatches, plan, configuration, view });
  const tables = new DeviceTables(sql);
  const lifecycle = new DeviceLifecycle({
    ...{ clock, turns, devices, secrets, sessions, tables, diagnostics, journal, movedNonces },
    ...{ presence, outbox, serving },
  });
  const tokens = new TokenRefresh({
    ...{ clock, devices, sessions, sender, outbox, tokenKeys: env.TOKEN_KEYS, keepAlive },
  });
  const receiver = new DeviceReceiver({
    ...{ turns, registry, devices, secrets, sessions, diagnostics, journal, feed, alerts, presence },
    ...{ dispatches, serving, tokens, counts },
  });
  const link = new DeviceLink({
    ...{ clock, turns, devices, sessions, presence, diagnostics },
    receive: (device, frames, now, answer) => receiver.receive(device, frames, now, answer),
  });
  const plantHost = () => ({
    ...{ registry, devices, sessions, lifecycle, dispatches, commands, plan, schedules, alerts, presence },
  });

  const retention = new Retention(
    siteBudgets({ journalRows, store, commandRows, messageIds }, (setting) => keptMs(registry, setting)),
    outboxRows,
  );
  /** What one alarm does, in this order. The Reporter only shows that the object works: its counts travel on their own. */
  const figures = { class: 'Site' as const, clock, mark: () => undefined, report: () => ({}) };
  const dueSources: DueSource[] = [
    ...[sessions, secrets, movedNonces, tokens, plan, dispatches, presence, alerts, feed, calls, outbox],
    ...[store, retention, new Reporter(ctx, env, figures, onChange)],
  ];

  return {
    ...{ clock, turns, identity, registry, outbox, devices, sessions, diagnostics, presence, alerts, feed },
    ...{
      journal,
      store,
      commandRows,
      scheduleRows,
      submissions,
      configuration,
      restCommands,
      lifecycle,
      link,
    },
    ...{ secrets, movedNonces, dueSources },
  };
}

/** How long the organization keeps telemetry of a level. */
function keptMs(
  { record }: PlantCopy,
  setting: 'rawRetentionDays' | 'fiveMinuteRetentionDays' | 'hourlyRetentionDays',
): number {
  return (record?.settings[setting] ?? LIMIT[setting]) * 24 * 60 * 60_000;
}

/** What the bare signal names of a device mean. */
function originOf(deviceId: string, devices: Devices, registry: PlantCopy): SignalOrigin {
  const isLinked = ({ linkedDeviceId }: SubDevice) => linkedDeviceId === deviceId;
  const device = devices.find(deviceId);
  return {
    deviceId,
    servesSite: device !== undefined && servesSite(device),
    subDeviceId: registry.subDevices.find(isLinked)?.externalId,
  };
}

/** Sends a telemetry event, which a failure loses [C-8.2]. */
async function deliverPassing(
  vhosts: Stubs<VhostStub>,
  keyId: string,
  siteId: string,
  event: PassingEvent,
): Promise<void> {
  try {
    await vhosts.call(keyId, (vhost) => vhost.receivePassing(siteId, [event]));
  } catch (error) {
    console.warn('telemetry event lost', { keyId, reason: reasonOf(error) });
  }
}
