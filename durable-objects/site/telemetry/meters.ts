/**
 * What is known of a plant's meters besides their values: how much their connection carries, and when an admin has
 * exchanged one [C-4.5].
 */
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { MeterExchangeAnswer, MeterExchangeRequest } from '../../../protocol/meter.ts';
import type { Constraints } from '../../../protocol/site-config.ts';
import type { AuditEntry } from '../../../registry/entries.ts';
import type { PlantCopy } from '../../../registry/plant-copy.ts';
import type { KeyValues } from '../../object/key-values.ts';
import type { Turn, Turns } from '../../object/turn.ts';
import { auditRow } from '../event/event-rows.ts';
import type { Outbox } from '../event/outbox.ts';
import { Fact, type SiteFact } from '../stored.ts';
import { roleOf } from './meter.ts';
import { type MeterExchange, type RegisterCourse, type RegisterState, totalOf } from './register.ts';

/** A connection may carry more than its limit for a while, and ratings are rounded: the bound is against nonsense. */
const TOLERANCE = 2;
/** How many exchanges of a register are kept: more than there are within the hours that values wait to be packed. */
const MOST_EXCHANGES = 16;

interface MetersHost {
  turns: Turns;
  outbox: Pick<Outbox, 'emit'>;
  /** The state of each register now. */
  registersNow(): Readonly<Record<string, RegisterState>>;
  registry: PlantCopy;
  hardLimits(): Constraints | null;
}

export class Meters {
  readonly #host: MetersHost;
  /**
   * The last exchanges of each register, by metric. Values that are not packed yet are counted again, from before an
   * exchange that another one has followed since.
   */
  readonly #exchanges: Fact<Record<string, MeterExchange[]>>;

  constructor(values: KeyValues<SiteFact>, host: MetersHost) {
    this.#host = host;
    this.#exchanges = new Fact(values, 'meterExchanges', {});
  }

  readonly courseOf = (metric: string): RegisterCourse => {
    return { mostKw: this.#mostKw(metric), exchanges: this.#exchangesOf(metric) };
  };

  /** Begins to count registers of a sub-device again from given values. The total of a register never falls. */
  exchange(
    externalId: string,
    wanted: MeterExchangeRequest['registers'],
    audit: AuditEntry,
  ): MeterExchangeAnswer {
    return this.#host.turns.run((turn) => {
      const answer = this.#exchange(turn, externalId, wanted);
      const cause = `${audit.event}|${audit.target?.id}|${turn.now}`;
      if (!('refused' in answer)) this.#host.outbox.emit(turn, auditRow(cause, audit, turn.now));
      return answer;
    });
  }

  #exchangesOf(metric: string): MeterExchange[] | undefined {
    const exchanges = this.#exchanges.value;
    return Object.hasOwn(exchanges, metric) ? exchanges[metric] : undefined;
  }

  #exchange(turn: Turn, externalId: string, wanted: MeterExchangeRequest['registers']): MeterExchangeAnswer {
    const registers = this.#host.registersNow();
    const exchanges = { ...this.#exchanges.value };
    for (const [name, { value, totalKwh }] of Object.entries(wanted)) {
      const metric = `${externalId}/${name}`;
      const state = Object.hasOwn(registers, metric) ? registers[metric] : undefined;
      if (state && totalKwh < totalOf(state)) return { refused: name, totalKwh: totalOf(state) };
      const exchange = { atMs: turn.now, value, totalKwh };
      exchanges[metric] = [...(this.#exchangesOf(metric) ?? []), exchange].slice(-MOST_EXCHANGES);
    }
    // Of sub-devices that were deleted nothing is kept, so there are not more of them than registers.
    const ids = new Set(this.#host.registry.subDevices.map((one) => one.externalId));
    const kept = Object.entries(exchanges).filter(([metric]) => ids.has(subDeviceOf(metric)));
    this.#exchanges.set(turn, Object.fromEntries(kept));
    return { exchangedAt: formatInstant(turn.now) };
  }

  /** The most that the connection of a register's sub-device carries. */
  #mostKw(metric: string): number {
    const id = subDeviceOf(metric);
    const meter = this.#host.registry.subDevices.find(({ externalId }) => externalId === id);
    // A register without a sub-device is of the whole plant.
    const isOfConnection = !meter || roleOf(meter) === 'GRID';
    const known = meter?.ratedPowerKw ?? (isOfConnection ? this.#connectionKw() : null);
    return known ? known * TOLERANCE : LIMIT.registerPowerKw;
  }

  #connectionKw(): number | null {
    const { maxImportKw, maxExportKw } = this.#host.hardLimits() ?? {};
    return maxImportKw == null || maxExportKw == null ? null : Math.max(maxImportKw, maxExportKw);
  }
}

function subDeviceOf(metric: string): string {
  return metric.slice(0, Math.max(0, metric.lastIndexOf('/')));
}
