/**
 * The load of P1 on any side: signed device commands with a fixed number in flight, timed from the publish to the
 * confirm, to the acknowledgement and to COMPLETED.
 */
import { randomUUID } from 'node:crypto';
import type { Partner } from '../partner.ts';
import type { SeededPlant } from '../seed.ts';

/** Times in ms. */
export interface CommandSamples {
  confirm: number[];
  ack: number[];
  completed: number[];
  /** How long the whole run took. */
  seconds: number;
}

interface Open {
  sentAt: number;
  samples: CommandSamples;
  done: () => void;
}

const COMMANDS = [
  { deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw: 5 } },
] as const;

export class CommandLoad {
  readonly #partner: Partner;
  readonly #open = new Map<string, Open>();
  /** Distinguishes the commands of two loads. */
  readonly #prefix = randomUUID().slice(0, 8);
  #turn = 0;

  private constructor(partner: Partner) {
    this.#partner = partner;
  }

  /** Consumes the partner's events from now on. */
  static async start(partner: Partner): Promise<CommandLoad> {
    const load = new CommandLoad(partner);
    for (const [queue, isAck] of [
      ['event.status', true],
      ['event.execution', false],
    ] as const) {
      await partner.channel.consume(`vcp.acme.${queue}`, (message) => {
        if (!message) return;
        partner.channel.ack(message);
        load.#receive(message.content, isAck);
      });
    }
    return load;
  }

  /** Sends that many commands to the plants in turn. */
  async run(plants: readonly SeededPlant[], inFlight: number, commands: number): Promise<CommandSamples> {
    const samples: CommandSamples = { confirm: [], ack: [], completed: [], seconds: 0 };
    let left = commands;
    const startedAt = performance.now();
    const worker = async () => {
      while (left-- > 0) await this.#command(plants, samples);
    };
    await Promise.all(Array.from({ length: inFlight }, worker));
    samples.seconds = (performance.now() - startedAt) / 1_000;
    return samples;
  }

  async #command(plants: readonly SeededPlant[], samples: CommandSamples): Promise<void> {
    const plant = plants[this.#turn++ % plants.length] as SeededPlant;
    const correlationId = `c-${this.#prefix}-${this.#turn}`;
    const completed = new Promise<void>((done) => {
      this.#open.set(correlationId, { sentAt: performance.now(), samples, done });
    });
    const sentAt = performance.now();
    await this.#partner.publish('device', plant.id, { commands: COMMANDS }, { correlationId });
    samples.confirm.push(performance.now() - sentAt);
    await completed;
  }

  #receive(content: Buffer, isAck: boolean): void {
    const { correlationId, payload } = JSON.parse(content.toString('utf8'));
    const open = this.#open.get(correlationId);
    if (!open) return;
    const elapsed = performance.now() - open.sentAt;
    if (isAck) open.samples.ack.push(elapsed);
    else if (payload.status === 'COMPLETED') {
      open.samples.completed.push(elapsed);
      this.#open.delete(correlationId);
      open.done();
    }
  }
}
