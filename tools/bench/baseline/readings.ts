/** Stores the readings of devices, many in one statement. */
import type { DeviceMessage } from '../../../protocol/device-message.ts';
import { Batches } from './batches.ts';
import type { Database } from './statements.ts';

interface Reading {
  /** The row as JSON text. */
  row: string;
  done: () => void;
}

export class Readings {
  readonly #batches: Batches<Reading>;
  /** Messages that were not stored: refused by a check, or repeated. */
  dropped = 0;

  /** `stored` is called with the number of readings of each committed batch. */
  constructor(database: Database, stored: (count: number) => void) {
    this.#batches = new Batches(
      async (readings) => {
        const fresh = await database.storeReadings(readings.map(({ row }) => row));
        this.dropped += readings.length - fresh;
        stored(fresh);
        for (const { done } of readings) done();
      },
      { most: 1_000 },
    );
  }

  add(
    deviceId: string,
    { ts, nonce, dataText }: Extract<DeviceMessage, { topic: 'telemetry' }>,
    done: () => void,
  ): void {
    const row = `{"d":"${deviceId}","t":${ts},"n":${JSON.stringify(nonce)},"v":${dataText}}`;
    this.#batches.add({ row, done });
  }
}
