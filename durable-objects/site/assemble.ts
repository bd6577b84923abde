/**
 * Creates all parts of one site when its object is loaded, and gives each part only the other parts that it
 * asks for. No part can reach the whole site; only `durable-objects/site.ts` imports this file.
 */
import { LIMIT } from '../../protocol/limits.ts';
import { COMMAND_TYPES } from '../../protocol/routing-keys.ts';
import { PlantCopy, readPlant } from '../../registry/plant-copy.ts';
import { SeenConnections } from '../dial.ts';
import type { Env } from '../env.ts';
import { OwnCounts } from '../metrics/counts.ts';
import { anyCounting, Reporter } from '../metrics/report.ts';
import type { DueSource } from '../object/agenda.ts';
import { Calls } from '../object/calls.ts';
import { Clock } from '../object/clock.ts';
import type { Fence } from '../object/fence.ts';
import { KeyValues } from '../object/key-values.ts';
import { Sql } from '../object/sql.ts';
import { Streams } from '../object/streams.ts';
import { Turns } from '../object/turn.ts';
import { objectNamed } from '../object-id.ts';
import { SecretBox } from '../secrets/secret-box.ts';
import { Alerts } from './alert/alerts.ts';
import { BatchOwner, BatteryDemands } from './command/batch-owner.ts';
import { Commands } from './command/commands.ts';
import { MessageIdRows } from './command/message-ids.ts';
import type { CommandOwners } from './command/owner.ts';
import { CommandRows } from './command/rows.ts';
import { Submissions } from './command/submissions.ts';
import { ConfigOwner, Configuration } from './config/configuration.ts';
import { ConfigurationState } from './config/state.ts';
import { Devices } from './device/devices.ts';
import { Diagnostics } from './device/diagnostics.ts';
import { DeviceTables } from './device/rows.ts';
import { DeviceSecrets } from './device/secrets.ts';
import { originOf } from './device/serving.ts';
import { DeviceSessions } from './device/sessions.ts';
import { SessionTakeovers } from './device/takeovers.ts';
import { Dispatches } from './dispatch/dispatches.ts';
import type { Owner } from './dispatch/owner.ts';
import { DispatchRows, type OwnerName } from './dispatch/rows.ts';
import { CommandSender } from './dispatch/sender.ts';
import { destinationOf } from './event/destinations.ts';
import { Events } from './event/events.ts';
import { Outbox } from './event/outbox.ts';
import { PlantEvents } from './event/plant-events.ts';
import { OutboxRows } from './event/rows.ts';
import { endWatchers } from './event/watchers.ts';
import { PlanHistory } from './explain/plan-history.ts';
import { PlanChangeRows } from './explain/rows.ts';
import { SiteIdentity } from './identity.ts';
import { Lifecycle } from './lifecycle/lifecycle.ts';
import { Move } from './lifecycle/move.ts';
import { Rotation } from './lifecycle/rotation.ts';
import { Suspension } from './lifecycle/suspension.ts';
import { DeviceLink } from './link/device-link.ts';
import { DeviceTokens } from './link/tokens.ts';
import { ModeOwner, ReleaseOwner } from './plan/mode-owner.ts';
import { EmergencyOwner, PlanOwner, SetpointOwner } from './plan/owner.ts';
import { Plan } from './plan/plan.ts';
import { PlanState } from './plan/state.ts';
import { Presence } from './presence/presence.ts';
import { RestCommands } from './rest-command/rest-commands.ts';
import { Retention, siteBudgets } from './retention.ts';
import { ScheduleOwner } from './schedule/owner.ts';
import { ScheduleRows } from './schedule/rows.ts';
import { Schedules } from './schedule/schedules.ts';
import type { SiteFact } from './stored.ts';
import { readLastReadings } from './telemetry/answers.ts';
import { TelemetryFeed } from './telemetry/feed.ts';
import { Journal } from './telemetry/journal.ts';
import { Meters } from './telemetry/meters.ts';
import { nameHints } from './telemetry/name-hints.ts';
import { MovedNonces } from './telemetry/replay.ts';
import { JournalRows } from './telemetry/rows.ts';
import type { RetentionSetting } from './telemetry/storage-levels.ts';
import { TelemetryStore } from './telemetry/store.ts';
import { viewOncePerTurn } from './view.ts';

export type AssembledSite = ReturnType<typeof assembleSite>;

/** `onChange`: due times may have changed; with `dueMs` only this one is new. */
export function assembleSite(
  ctx: DurableObjectState,
  env: Env,
  fence: Fence,
  onChange: (dueMs?: number) => void,
) {
  const clock = new Clock();
  const sql = new Sql(ctx.storage);
  const keyValues = new KeyValues<SiteFact>(sql);
  const keepAlive = (work: Promise<void>) => ctx.waitUntil(work);

  // turns and what leaves the object
  const turns: Turns = new Turns(
    ctx,
    clock,
    {
      ending: (turn) => {
        plan.applyChanges(turn);
        planHistory.note(turn);
        outbox.write(turn);
      },
      ended: () => {
        sender.flush();
        outbox.drainWritten();
        watchers.show();
        counts.report();
        onChange();
      },
    },
    fence,
  );
  const calls = new Calls(clock, onChange);
  const counts = new OwnCounts({
    ...{ clock, calls, keepAlive, changed: onChange },
    report: (batch) => anyCounting(env).add(batch),
  });
  const identity = new SiteIdentity(keyValues, turns);
  const siteId = () => identity.known ?? '';
  const vhostOf = (keyId: string) => objectNamed(env, 'VHOST', keyId);
  const destination = destinationOf({ database: env.DB, vhostOf, siteId });
  const plantEvents: PlantEvents = new PlantEvents({ clock, siteId, watchers: () => watchers.count });
  const watchers: Streams = new Streams({
    ...{ ctx, clock, turns, source: plantEvents, most: LIMIT.streamsPerPlant, keepAlive },
    waitsAgain: () => plantEvents.last,
  });
  const outboxRows = new OutboxRows(sql);
  const outbox = new Outbox(outboxRows, {
    ...{ clock, turns, calls, destination, keepAlive, plantEvents, changed: onChange },
  });
  const registry: PlantCopy = new PlantCopy(keyValues, {
    ...{ clock, turns, keepAlive },
    read: () => (identity.known ? readPlant(env.DB, identity.known, clock.now()) : undefined),
    onChange: (turn, record) => {
      lifecycle.plantChanged(turn, !record);
      endWatchers(turn, { watchers, plantEvents }, record);
    },
  });
  const events = new Events({ values: keyValues, outbox, counts, registry });

  // devices
  const secrets = new DeviceSecrets(sql, new SecretBox(env.DATA_KEYS));
  const devices = new Devices(sql, secrets);
  const isSubDevice = (externalId: string) => registry.isSubDevice(externalId);
  const takeovers = new SessionTakeovers({ sql, outbox, registry });
  const diagnostics = new Diagnostics(sql, {
    hintsOf: (id) => [
      ...takeovers.hints(id, clock.now()),
      ...nameHints(journal.snapshot.toJSON(), journal.meaningOf(id), isSubDevice, clock.now()),
    ],
    readingsOf: (id) => readLastReadings({ journal, registry, clock }, id),
  });
  const sessions: DeviceSessions = new DeviceSessions(ctx, devices, new SeenConnections(sql), (turn) =>
    presence.update(turn),
  );

  // telemetry
  const movedNonces = new MovedNonces(sql);
  const journalRows = new JournalRows(sql, () => store.state.packedBlock);
  const journal = new Journal(journalRows, keyValues, {
    clock,
    origin: (deviceId) => originOf(deviceId, devices, registry),
    isSubDevice,
    movedNonces: () => movedNonces.all(),
  });
  const hardLimits = () => configurationState.config.hardLimits;
  const registersNow = () => store.registersNow();
  const meters = new Meters(keyValues, { turns, outbox, registry, hardLimits, registersNow });
  const store: TelemetryStore = new TelemetryStore(sql, keyValues, journal, meters.courseOf);

  // stored state that the rules see
  const planChanged = () => planHistory.touch();
  const configurationState: ConfigurationState = new ConfigurationState(keyValues, planChanged);
  const demands = new BatteryDemands(keyValues);
  const commandRows = new CommandRows(sql);
  const messageIds = new MessageIdRows(sql);
  const scheduleRows = new ScheduleRows(sql);
  const planState = new PlanState(sql, keyValues, configurationState, scheduleRows, planChanged);
  const presence: Presence = new Presence({
    ...{ values: keyValues, devices, sessions, registry, journal, outbox, events },
    config: () => configurationState.config,
    changed: planChanged,
  });
  const alerts = new Alerts({ registry, journal, outbox });
  const feed = new TelemetryFeed({
    ...{ clock, identity, registry, journal, sessions, destination, keepAlive, plantEvents },
    operatingMode: (now) => configurationState.operatingMode(now),
  });
  const view = viewOncePerTurn({
    ...{ registry, configuration: configurationState, plan: planState, demands, schedules: scheduleRows },
    ...{ devices, sessions, presence, journal },
  });

  // commands, their dispatches, and what they change
  const sender: CommandSender = new CommandSender(clock, devices, secrets, sessions);
  const dispatches: Dispatches = new Dispatches({
    ...{ rows: new DispatchRows(sql), devices, sessions, sender, view, log: commandRows },
    owner: (name) => owners[name],
    planMoved: (turn, row, outcome) => {
      if (outcome) planHistory.answered(turn, row, outcome);
      else planHistory.touch();
    },
  });
  const commands: Commands = new Commands({
    ...{ rows: commandRows, events, dispatches },
    spansOf: (sequence, now) => planState.spansOf(sequence, now),
    forget: (turn, sequence) => {
      for (const type of COMMAND_TYPES) owners[type].forget(turn, sequence);
    },
  });
  const schedules = new Schedules({
    ...{ rows: scheduleRows, commands, dispatches, events, view },
    changed: () => planState.touch(),
  });
  const plan: Plan = new Plan({
    ...{ clock, state: planState, commands, dispatches, schedules, demands, events, journal, registry, view },
  });
  const configuration = new Configuration({
    ...{ state: configurationState, commands, dispatches, plan, schedules, presence, view },
  });
  const restCommands = new RestCommands({ sql, devices, dispatches, outbox });
  const host = { commands, dispatches, events, view, plan, schedules, configuration: configurationState };
  // The owner of every dispatch: one for each command type, for releases from an emergency, for the plan and for REST
  // commands. A missing one does not compile.
  const owners: CommandOwners & { readonly [Name in OwnerName]: Owner } = {
    SITE_SETPOINT: new SetpointOwner(host),
    DEVICE_COMMAND: new BatchOwner(host, demands),
    EMERGENCY: new EmergencyOwner(host),
    MODE_CHANGE: new ModeOwner(host),
    RELEASE: new ReleaseOwner(host),
    SCHEDULE: new ScheduleOwner(host),
    CONFIG: new ConfigOwner({ ...host, configuration }),
    PLAN: new PlanOwner(host),
    REST_COMMAND: restCommands,
  };
  const submissions = new Submissions({ rows: commandRows, messageIds, dispatches, events, owners, view });

  const planHistory: PlanHistory = new PlanHistory({
    ...{ rows: new PlanChangeRows(sql), state: planState, commands, dispatches: dispatches.rows },
    ...{ schedules: scheduleRows, configuration, devices, presence, view },
    owner: (name) => owners[name],
  });

  // devices that connect, leave and move
  const tables = new DeviceTables(sql);
  const lifecycle: Lifecycle = new Lifecycle({
    ...{ turns, registry, devices, secrets, sessions, tables, presence, alerts, commands, dispatches, plan },
    ...{ schedules, configuration, view },
  });
  const suspension = new Suspension({
    ...{ clock, turns, registry, devices, sessions, diagnostics, presence, outbox, lifecycle },
  });
  const move = new Move({
    ...{ clock, turns, devices, secrets, sessions, tables, journal, movedNonces, presence, lifecycle },
  });
  const rotation = new Rotation({ turns, devices, secrets, sessions, presence, outbox });
  const tokens = new DeviceTokens({
    ...{ clock, turns, devices, secrets, sessions, diagnostics, journal, movedNonces, sender, outbox },
    ...{ tokenKeys: env.TOKEN_KEYS, keepAlive },
  });
  const link = new DeviceLink({
    ...{ clock, turns, registry, devices, secrets, sessions, diagnostics, journal, feed, alerts },
    ...{ presence, dispatches, lifecycle, suspension, tokens, counts, takeovers },
  });

  const keptMs = (setting: RetentionSetting) =>
    (registry.record?.settings[setting] ?? LIMIT[setting]) * 24 * 60 * 60_000;
  const retention = new Retention(
    siteBudgets(
      { journalRows, commandRows, messageIds, planChanges: planHistory.rows },
      store.budgets(keptMs),
    ),
    outboxRows,
  );
  /**
   * The Reporter of a Site only reports that the object is awake. A Site has no queues, and `OwnCounts`
   * reports its counts.
   */
  const reported = { class: 'Site' as const, clock, mark: () => undefined, report: () => ({}) };
  /** The due sources of the site; an alarm runs them in this order. */
  const dueSources: DueSource[] = [
    ...[sessions, secrets, movedNonces, tokens, plan, dispatches, presence, alerts, feed, calls, outbox],
    ...[watchers, store, retention, counts, new Reporter(ctx, env, reported, onChange)],
  ];

  return {
    ...{ clock, turns, identity, registry, outbox, watchers, plantEvents, devices, secrets, sessions },
    ...{ diagnostics, presence, journal, store, commandRows, schedules, submissions, configuration },
    ...{ restCommands, commands, dispatches, plan, owners, view, planHistory, messageIds },
    ...{ suspension, move, rotation, link, tokens, alerts, feed, meters, dueSources },
  };
}
