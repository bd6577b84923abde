/** The parts of one site, made once a wake and put together here. Hub and rules take what they need from them. */
import { LIMIT } from '../../protocol/limits.ts';
import type { Env, VhostStub } from '../env.ts';
import { Clock } from '../object/clock.ts';
import { Facts } from '../object/facts.ts';
import { SeenConnections } from '../object/seen-connections.ts';
import { Sql } from '../object/sql.ts';
import { type Turn, Turns } from '../object/turn.ts';
import { PlantCopy, type SubDevice } from '../registry/plant-copy.ts';
import { writeStatus } from '../registry/status-lane.ts';
import { SecretBox } from '../secrets/secret-box.ts';
import { CommandRows } from './command/rows.ts';
import { SiteConfiguration } from './config/configuration.ts';
import { Devices } from './device/devices.ts';
import { DeviceRows } from './device/rows.ts';
import { DeviceSecrets } from './device/secrets.ts';
import { servesSite, servingGateway } from './device/serving.ts';
import { DeviceSessions } from './device/sessions.ts';
import { DispatchRows } from './dispatch/rows.ts';
import { REGISTRY_LANE, toEvent, toStatusChange } from './event/events.ts';
import { type Delivered, Outbox } from './event/outbox.ts';
import { type OutboxRow, OutboxRows } from './event/rows.ts';
import { type SiteFact, SiteIdentity } from './identity.ts';
import { Presence } from './presence/presence.ts';
import type { SiteFacts } from './site-facts.ts';
import { TelemetryFeed } from './telemetry/feed.ts';
import { Journal } from './telemetry/journal.ts';
import { JournalRows } from './telemetry/rows.ts';
import type { SignalOrigin } from './telemetry/snapshot.ts';

/** Forgetting messageIds reads their whole table: no more than this often. */
const FORGET_INTERVAL_MS = 24 * 3_600_000;

export class SiteParts {
  readonly clock = new Clock();
  readonly turns: Turns;
  readonly identity: SiteIdentity;
  readonly registry: PlantCopy;
  readonly configuration: SiteConfiguration;
  readonly secrets: DeviceSecrets;
  readonly devices: Devices;
  readonly sessions: DeviceSessions;
  readonly journal: Journal;
  readonly presence: Presence;
  readonly feed: TelemetryFeed;
  readonly commands: CommandRows;
  readonly dispatches: DispatchRows;
  readonly outbox: Outbox;
  readonly #env: Env;
  #messagesForgottenAtMs = 0;
  #facts: { turn: Turn; facts: SiteFacts } | undefined;

  /** `onChange`: due times may have changed. */
  constructor(ctx: DurableObjectState, env: Env, onChange: () => void) {
    this.#env = env;
    const { clock } = this;
    const sql = new Sql(ctx.storage);
    const facts = new Facts<SiteFact>(sql);
    const keepAlive = (work: Promise<void>) => ctx.waitUntil(work);
    this.turns = new Turns(ctx, clock, {
      ending: (turn) => this.outbox.write(turn),
      ended: () => {
        this.outbox.drainWritten();
        onChange();
      },
    });
    this.commands = new CommandRows(sql);
    this.dispatches = new DispatchRows(sql);
    this.outbox = new Outbox(new OutboxRows(sql), {
      clock,
      turns: this.turns,
      deliver: (lane, rows) => this.#deliver(lane, rows),
      keepAlive,
      changed: onChange,
    });
    this.identity = new SiteIdentity(facts, this.turns);
    this.configuration = new SiteConfiguration(facts);
    this.registry = new PlantCopy(facts, {
      clock,
      turns: this.turns,
      database: env.DB,
      siteId: () => this.identity.known,
      keepAlive,
    });
    this.secrets = new DeviceSecrets(new SecretBox(env.DATA_KEYS));
    this.devices = new Devices(new DeviceRows(sql), this.secrets);
    this.journal = new Journal(new JournalRows(sql), facts, {
      clock,
      origin: (deviceId) => this.#origin(deviceId),
      isSubDevice: (externalId) => this.registry.isSubDevice(externalId),
      onRollover: (turn) => this.#forgetMessages(turn),
    });
    const { devices, registry, journal, outbox } = this;
    this.presence = new Presence({ facts, devices, registry, journal, outbox });
    this.sessions = new DeviceSessions(ctx, devices, new SeenConnections(sql), (turn) =>
      this.presence.update(turn),
    );
    const { identity, sessions, configuration } = this;
    this.feed = new TelemetryFeed(
      { clock, identity, registry, journal, sessions, configuration },
      (keyId, siteId, event) => {
        const sent = this.#vhost(keyId).receivePassing(siteId, [event]);
        ctx.waitUntil(
          sent.catch((error: unknown) => {
            console.warn('telemetry event lost', { keyId, error: String(error) });
          }),
        );
      },
    );
  }

  /** What the rules see, built once a turn. */
  facts(turn: Turn): SiteFacts {
    if (this.#facts?.turn !== turn) this.#facts = { turn, facts: this.#readFacts(turn.now) };
    return this.#facts.facts;
  }

  #readFacts(now: number): SiteFacts {
    const { config } = this.configuration;
    const isLive = (id: string) => this.sessions.isLive(id, now);
    const isActive = (id: string) => this.devices.find(id)?.status === 'ACTIVE';
    const gatewayId = servingGateway(this.devices.all(), isLive)?.id;
    return {
      subDevices: this.registry.subDevices,
      constraints: config.constraints,
      hardLimits: config.hardLimits,
      gatewayId,
      servingDevice: ({ linkedDeviceId }) => {
        const id = linkedDeviceId && isActive(linkedDeviceId) ? linkedDeviceId : gatewayId;
        return id === undefined ? undefined : { id, live: isLive(id) };
      },
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

  #forgetMessages(turn: Turn): void {
    if (turn.now - this.#messagesForgottenAtMs < FORGET_INTERVAL_MS) return;
    this.#messagesForgottenAtMs = turn.now;
    this.commands.forgetBefore(turn, turn.now - LIMIT.messageIdMemoryMs);
  }

  async #deliver(lane: string, rows: readonly OutboxRow[]): Promise<Delivered> {
    if (lane === REGISTRY_LANE) {
      await writeStatus(this.#env.DB, rows.map(toStatusChange));
      return { received: rows.at(-1)?.sequence ?? 0 };
    }
    const siteId = this.identity.known ?? '';
    const receipt = await this.#vhost(lane).receive(siteId, rows.map(toEvent));
    return receipt.gone ? 'gone' : { received: receipt.received };
  }

  #vhost(keyId: string): VhostStub {
    return this.#env.VHOST.get(this.#env.VHOST.idFromName(keyId));
  }
}
