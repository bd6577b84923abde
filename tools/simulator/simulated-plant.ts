/** The plant of a simulated gateway: executes commands, acts by itself without contact, and makes the readings. */
import type { AssetType } from '../../protocol/enums.ts';
import type { Constraints } from '../../protocol/site-config.ts';
import type { Behaviour } from './behaviour.ts';
import { type Alone, alone, obey, type SiteCommand } from './orders.ts';
import { advance, initialState, NO_ORDERS, type PlantLimits } from './plant.ts';

/** An asset, by the name that commands and signals use. */
export interface PlantAsset {
  deviceId: string;
  assetType: AssetType;
  ratedPowerKw: number | null;
  capacityKwh: number | null;
}

const round = (value: number) => Math.round(value * 1_000) / 1_000;

function limitsOf(assets: readonly PlantAsset[], constraints: Constraints | null): PlantLimits {
  const first = (assetType: AssetType) => assets.find((asset) => asset.assetType === assetType);
  return {
    batteryPowerKw: first('BESS')?.ratedPowerKw ?? 50,
    batteryCapacityKwh: first('BESS')?.capacityKwh ?? 100,
    minSocPercent: constraints?.minSocPercent ?? 0,
    maxSocPercent: constraints?.maxSocPercent ?? 100,
    pvPeakKw: first('FVE')?.ratedPowerKw ?? 80,
    maxImportKw: constraints?.maxImportKw ?? 120,
    maxExportKw: constraints?.maxExportKw ?? 90,
  };
}

export class SimulatedPlant {
  behaviour: Behaviour;
  readonly #assets: readonly PlantAsset[];
  readonly #limits: PlantLimits;
  #state = initialState(Date.now());
  #orders = NO_ORDERS;
  /** What the plant does while it has no contact; undefined: it follows its orders. */
  #byItself: Alone;
  #lastMessageAtMs = Date.now();

  constructor(behaviour: Behaviour, assets: readonly PlantAsset[], constraints: Constraints | null) {
    this.behaviour = behaviour;
    this.#assets = assets;
    this.#limits = limitsOf(assets, constraints);
  }

  /** Returns false if the plant does not know the command, an emergency forbids it, or the plant is in fault. */
  obey(command: SiteCommand): boolean {
    this.#advance();
    this.#byItself = undefined;
    const { inFault, share } = this.behaviour;
    const atCommand = { limits: this.#limits, state: this.#state, share };
    const next = inFault ? undefined : obey(this.#orders, command, atCommand);
    if (next) this.#orders = next;
    return next !== undefined;
  }

  /**
   * Returns the readings. From then on the plant follows its orders if it has contact, else its schedule or
   * its fallback.
   */
  read(isReached: boolean): Record<string, number> {
    this.#advance();
    const readings = this.#readings();
    this.#lookAround(isReached);
    return readings;
  }

  #advance(): void {
    this.#state = advance(this.#state, this.#byItself?.orders ?? this.#orders, this.#limits, Date.now());
  }

  #lookAround(isReached: boolean): void {
    if (isReached) {
      this.#byItself = undefined;
      this.#lastMessageAtMs = Date.now();
      return;
    }
    const before = this.#byItself;
    this.#byItself = alone(before, this.#orders, this.#state, Date.now() - this.#lastMessageAtMs);
    if (this.#byItself?.isFallback && !before?.isFallback) {
      console.error('simulator: no contact with the platform for afterSeconds, fallback engaged');
    }
  }

  #readings(): Record<string, number> {
    const { gridPowerKw, pvPowerKw, batteryPowerKw, consumptionPowerKw } = this.#state;
    const ofAssets = this.#assets.flatMap(({ deviceId, assetType }) =>
      // `fault` is sent even if there is no fault, to clear a fault of an earlier run.
      Object.entries({ fault: this.behaviour.inFault ? 1 : 0, ...this.#signals(assetType) }).map(
        ([signal, value]) => [`${deviceId}/${signal}`, round(value)],
      ),
    );
    return {
      ...Object.fromEntries(ofAssets),
      fallbackActive: this.#byItself?.isFallback ? 1 : 0,
      gridPowerKw: round(gridPowerKw),
      fvePowerKw: round(pvPowerKw),
      batteryPowerKw: round(batteryPowerKw),
      consumptionPowerKw: round(consumptionPowerKw),
    };
  }

  #signals(assetType: AssetType): Record<string, number> {
    const state = this.#state;
    switch (assetType) {
      case 'BESS':
        return {
          powerKw: state.batteryPowerKw,
          socPercent: state.socPercent,
          availableCapacityKwh: (this.#limits.batteryCapacityKwh * state.socPercent) / 100,
          temperatureCelsius: 24 + Math.abs(state.batteryPowerKw) / 10,
          chargeRegisterKwh: state.chargeRegisterKwh,
          dischargeRegisterKwh: state.dischargeRegisterKwh,
        };
      case 'FVE':
        return {
          powerKw: state.pvPowerKw,
          regulationPercent: this.#orders.pvFactor * 100,
          productionRegisterKwh: state.productionRegisterKwh,
        };
      case 'METER':
        return {
          powerKw: state.gridPowerKw,
          importRegisterKwh: state.importRegisterKwh,
          exportRegisterKwh: state.exportRegisterKwh,
          consumptionRegisterKwh: state.consumptionRegisterKwh,
        };
      case 'EV_CHARGER':
        return { powerKw: state.evPowerKw };
      default:
        return {};
    }
  }
}
