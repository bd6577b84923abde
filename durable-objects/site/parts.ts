/** The parts of one site, made once a wake and put together here. Hub and rules take what they need from them. */

import { LIMIT } from '../../protocol/limits.ts';
import type { Env, VhostStub } from '../env.ts';
import { OwnCounts } from '../figures/counts.ts';
import { figuresOf } from '../figures/stub.ts';
import { Calls } from '../object/calls.ts';
import { Clock } from '../object/clock.ts';
import { Facts } from '../object/facts.ts';
import { reasonOf } from '../object/reason.ts';
import { SeenConnections } from '../object/seen-connections.ts';
import { Sql } from '../object/sql.ts';
import { Stubs } from '../object/stubs.ts';
import { type Turn, Turns } from '../object/turn.ts';
import { PlantCopy, type SubDevice } from '../registry/plant-copy.ts';
import { writeRegistry } from '../registry/status-lane.ts';
import { SecretBox } from '../secrets/secret-box.ts';
import { Alerts } from './alert/alerts.ts';
import { SITE_BOUNDS } from './bounds.ts';
import { Commanded } from './command/commanded.ts';
import { MessageIdRows } from './command/message-ids.ts';
import { CommandRows } from './command/rows.ts';
import { SiteConfiguration } from './config/configuration.ts';
import { CarriedNonces } from './device/carried-nonces.ts';
import { CarriedTables } from './device/carried-tables.ts';
import { Devices } from './device/devices.ts';
import { DiagnosticsRows } from './device/diagnostics-rows.ts';
import { DeviceRates } from './device/rates.ts';
import { DeviceRows } from './device/rows.ts';
import { SecretRows } from './device/secret-rows.ts';
import { DeviceSecrets } from './device/secrets.ts';
import { servesSite, servingGateway } from './device/serving.ts';
import { DeviceSessions } from './device/sessions.ts';
import { DispatchRows } from './dispatch/rows.ts';
import { toEvent } from './event/events.ts';
import { type Delivered, Outbox } from './event/outbox.ts';
import { REGISTRY_LANE, toRegistryWrite } from './event/registry-rows.ts';
import { type OutboxRow, OutboxRows } from './event/rows.ts';
import { StandingAlarms } from './event/standing-alarms.ts';
import { ViolationDamping } from './event/violation-damping.ts';
import { type SiteFact, SiteIdentity } from './identity.ts';
import { OwnCommandRows } from './own-command/rows.ts';
import { Plan } from './plan/plan.ts';
import { Presence } from './presence/presence.ts';
import { Retention } from './retention.ts';
import { ScheduleRows } from './schedule/rows.ts';
import type { SiteFacts } from './site-facts.ts';
import { TelemetryFeed } from './telemetry/feed.ts';
import { Journal } from './telemetry/journal.ts';
import { JournalRows } from './telemetry/rows.ts';
import type { SignalOrigin } from './telemetry/snapshot.ts';
import { TelemetryStore } from './telemetry/store.ts';

export class SiteParts {
  readonly clock = new Clock();
  readonly turns: Turns;
  readonly calls: Calls;
  readonly identity: SiteIdentity;
  readonly registry: PlantCopy;
  readonly configuration: SiteConfiguration;
  readonly secrets: DeviceSecrets;
  readonly devices: Devices;
  readonly sessions: DeviceSessions;
  readonly carriedNonces: CarriedNonces;
  readonly carriedTables: CarriedTables;
  readonly diagnostics: DiagnosticsRows;
  readonly ownCommands: OwnCommandRows;
  readonly journal: Journal;
  readonly store: TelemetryStore;
  readonly presence: Presence;
  readonly alerts: Alerts;
  readonly feed: TelemetryFeed;
  readonly commands: CommandRows;
  readonly messageIds: MessageIdRows;
  readonly rates = new DeviceRates();
  readonly damping = new ViolationDamping();
  readonly retention: Retention;
  readonly dispatches: DispatchRows;
  readonly schedules: ScheduleRows;
  readonly plan: Plan;
  readonly commanded: Commanded;
  readonly outbox: Outbox;
  readonly counts: OwnCounts;
  readonly #env: Env;
  readonly #vhosts: Stubs<VhostStub>;
  #facts: { turn: Turn; facts: SiteFacts } | undefined;

  /** `onChange`: due times may have changed. `onPlantChange`: see PlantCopyHost. `onTurnEnd`: the last of its work. */
  constructor(
    ctx: DurableObjectState,
    env: Env,
    onChange: () => void,
    onPlantChange: (turn: Turn, isGone: boolean) => void,
    onTurnEnd: (turn: Turn) => void,
  ) {
    this.#env = env;
    this.#vhosts = new Stubs((keyId) => env.VHOST.get(env.VHOST.idFromName(keyId)));
    const { clock } = this;
    const sql = new Sql(ctx.storage);
    const facts = new Facts<SiteFact>(sql);
    const keepAlive = (work: Promise<void>) => ctx.waitUntil(work);
    this.turns = new Turns(ctx, clock, {
      ending: (turn) => {
        onTurnEnd(turn);
        this.outbox.write(turn);
      },
      ended: () => {
        this.outbox.drainWritten(() => ctx.storage.sync());
        this.counts.tell();
        onChange();
      },
    });
    this.calls = new Calls(clock, onChange);
    this.counts = new OwnCounts({ clock, tell: (counts) => figuresOf(env).add(counts), keepAlive });
    this.commands = new CommandRows(sql);
    this.messageIds = new MessageIdRows(sql);
    this.dispatches = new DispatchRows(sql);
    const outboxRows = new OutboxRows(sql);
    this.outbox = new Outbox(outboxRows, {
      clock,
      turns: this.turns,
      calls: this.calls,
      deliver: (lane, rows) => this.#deliver(lane, rows),
      keepAlive,
      changed: onChange,
    });
    this.identity = new SiteIdentity(facts, this.turns);
    this.configuration = new SiteConfiguration(facts);
    this.commanded = new Commanded(facts);
    this.schedules = new ScheduleRows(sql);
    this.plan = new Plan(sql, facts, this.configuration, this.schedules);
    this.registry = new PlantCopy(facts, {
      clock,
      turns: this.turns,
      database: env.DB,
      siteId: () => this.identity.known,
      keepAlive,
      onChange: onPlantChange,
    });
    this.secrets = new DeviceSecrets(new SecretRows(sql), new SecretBox(env.DATA_KEYS));
    this.carriedNonces = new CarriedNonces(sql);
    this.carriedTables = new CarriedTables(sql);
    this.diagnostics = new DiagnosticsRows(sql);
    this.ownCommands = new OwnCommandRows(sql);
    this.devices = new Devices(new DeviceRows(sql), this.secrets);
    const journalRows = new JournalRows(sql, () => this.store.state.packedBlock);
    this.journal = new Journal(journalRows, facts, {
      clock,
      origin: (deviceId) => this.#origin(deviceId),
      isSubDevice: (externalId) => this.registry.isSubDevice(externalId),
      carried: () => this.carriedNonces.all(),
    });
    this.store = new TelemetryStore(sql, facts, this.journal);
    const { store } = this;
    this.retention = new Retention(
      [
        {
          name: 'journal',
          table: journalRows,
          bytes: SITE_BOUNDS.journalBytes,
          ageMs: () => SITE_BOUNDS.journalMs,
        },
        {
          name: 'raw telemetry',
          table: store.kept('raw'),
          bytes: SITE_BOUNDS.rawBytes,
          ageMs: () => this.#keptMs('rawRetentionDays'),
        },
        {
          name: 'telemetry by five minutes',
          table: store.kept('5m'),
          bytes: SITE_BOUNDS.fiveMinuteBytes,
          ageMs: () => this.#keptMs('fiveMinuteRetentionDays'),
        },
        {
          name: 'telemetry by the hour',
          table: store.kept('1h'),
          bytes: SITE_BOUNDS.hourBytes,
          ageMs: () => this.#keptMs('hourlyRetentionDays'),
        },
        {
          name: 'telemetry by the day',
          table: store.kept('1d'),
          bytes: SITE_BOUNDS.dayBytes,
          ageMs: () => this.#keptMs('hourlyRetentionDays'),
        },
        { name: 'command log', table: this.commands, bytes: SITE_BOUNDS.commandLogBytes },
        {
          name: 'messageIds',
          table: this.messageIds,
          bytes: SITE_BOUNDS.messageIdBytes,
          ageMs: () => LIMIT.messageIdMemoryMs,
        },
      ],
      outboxRows,
      SITE_BOUNDS.outboxRows,
    );
    const { devices, registry, journal, outbox, configuration } = this;
    const quietSinceMs = (id: string) => this.sessions.quietSinceMs(id);
    const alarms = new StandingAlarms(facts, registry, outbox, this.counts);
    this.presence = new Presence({
      ...{ facts, devices, registry, journal, outbox, alarms, configuration },
      quietSinceMs,
    });
    this.sessions = new DeviceSessions(ctx, devices, new SeenConnections(sql), (turn) =>
      this.presence.update(turn),
    );
    this.alerts = new Alerts({ registry, journal, outbox });
    const { identity, sessions } = this;
    this.feed = new TelemetryFeed(
      { clock, identity, registry, journal, sessions, configuration },
      (keyId, siteId, event) => {
        const sent = this.#vhosts.call(keyId, (vhost) => vhost.receivePassing(siteId, [event]));
        const lost = (error: unknown) =>
          console.warn('telemetry event lost', { keyId, reason: reasonOf(error) });
        ctx.waitUntil(sent.catch(lost));
      },
    );
  }

  /** What the organization's setting allows a device to send. */
  get deviceMessagesPerSecond(): number {
    return this.registry.record?.settings.deviceRatePerSecond ?? LIMIT.deviceMessagesPerSecond;
  }

  /** For how long the organization keeps telemetry. */
  #keptMs(setting: 'rawRetentionDays' | 'fiveMinuteRetentionDays' | 'hourlyRetentionDays'): number {
    return (this.registry.record?.settings[setting] ?? LIMIT[setting]) * 24 * 60 * 60_000;
  }

  /** Who is told of a limit that a key's command broke. */
  keysToldOf(turn: Turn, keyId: string): (constraint: string) => readonly string[] {
    return (constraint) => this.damping.keysFor(turn, constraint, keyId, this.registry.keyIds);
  }

  /** What the rules see, built once a turn. */
  facts(turn: Turn): SiteFacts {
    if (this.#facts?.turn !== turn) this.#facts = { turn, facts: this.#readFacts(turn.now) };
    return this.#facts.facts;
  }

  #readFacts(now: number): SiteFacts {
    const isLive = (id: string) => this.sessions.isLive(id, now);
    const isActive = (id: string) => this.devices.find(id)?.status === 'ACTIVE';
    const gatewayId = servingGateway(this.devices.all(), isLive)?.id;
    const { plan, commanded, configuration } = this;
    return {
      get config() {
        return configuration.config;
      },
      get emergency() {
        return plan.emergency;
      },
      get commanded() {
        return commanded.demands;
      },
      socPercent: ({ externalId }) => {
        const { snapshot } = this.journal;
        const sample = snapshot.get(`${externalId}/socPercent`) ?? snapshot.get('socPercent');
        return sample && now - sample.atMs < LIMIT.signalStaleMs ? sample.value : undefined;
      },
      exists: this.registry.record !== undefined,
      subDevices: this.registry.subDevices,
      gatewayId,
      servingDevice: ({ linkedDeviceId }) => {
        const id = linkedDeviceId && isActive(linkedDeviceId) ? linkedDeviceId : gatewayId;
        if (id === undefined) return undefined;
        const device = this.devices.find(id);
        const connectedAtMs = device?.connection_id ? (device.connected_at_ms ?? now) : now;
        return { id, live: isLive(id), connectedForMs: now - connectedAtMs };
      },
      scheduleStatus: (id) => this.schedules.find(id)?.status,
      isActive,
      isLive,
      isOffline: ({ externalId }) => this.presence.status.subDevices[externalId] === 'OFFLINE',
      isInFault: (subDevice) => this.presence.isInFault(subDevice),
    };
  }

  #origin(deviceId: string): SignalOrigin {
    const isLinked = ({ linkedDeviceId }: SubDevice) => linkedDeviceId === deviceId;
    const device = this.devices.find(deviceId);
    return {
      deviceId,
      servesSite: device !== undefined && servesSite(device),
      subDeviceId: this.registry.subDevices.find(isLinked)?.externalId,
    };
  }

  async #deliver(lane: string, rows: readonly OutboxRow[]): Promise<Delivered> {
    if (lane === REGISTRY_LANE) {
      await writeRegistry(this.#env.DB, rows.map(toRegistryWrite));
      return { received: rows.at(-1)?.sequence ?? 0 };
    }
    const siteId = this.identity.known ?? '';
    const receipt = await this.#vhosts.call(lane, (vhost) => vhost.receive(siteId, rows.map(toEvent)));
    return receipt.gone ? 'gone' : receipt;
  }
}
