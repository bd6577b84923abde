/** A partner that sends commands, reconnects when its connection is lost, and counts the losses. */
import { setTimeout as pause } from 'node:timers/promises';
import { Partner, type PartnerOptions } from '../partner.ts';
import type { SeededPlant } from '../seed.ts';
import { CommandingPartner } from './plant-load.ts';

const RETRY_MS = 250;

export class ReturningPartner {
  readonly #options: PartnerOptions;
  #current: CommandingPartner | undefined;
  #isOver = false;
  #lost = 0;

  private constructor(options: PartnerOptions) {
    this.#options = options;
  }

  static async start(options: PartnerOptions): Promise<ReturningPartner> {
    const own = new ReturningPartner(options);
    await own.#connect();
    return own;
  }

  /** Number of connections that ended before `close`. */
  get lost(): number {
    return this.#lost;
  }

  /** Publishes a command. Resolves at its confirm; rejects if there is no connection or it is lost first. */
  async confirmed(plant: SeededPlant): Promise<void> {
    if (!this.#current) {
      await pause(RETRY_MS);
      throw new Error('the partner has no connection now: it reconnects');
    }
    await this.#current.command(plant).confirmed;
  }

  async close(): Promise<void> {
    this.#isOver = true;
    await this.#current?.partner.close();
  }

  async #connect(): Promise<void> {
    const partner = await Partner.connect(this.#options);
    partner.connection.on('error', () => {});
    partner.channel.on('error', () => {});
    partner.connection.on('close', () => {
      this.#current = undefined;
      if (this.#isOver) return;
      this.#lost += 1;
      void this.#return();
    });
    this.#current = await CommandingPartner.start(partner, this.#options.slug);
  }

  async #return(): Promise<void> {
    while (!this.#isOver && !this.#current) {
      await pause(RETRY_MS);
      await this.#connect().catch(() => {});
    }
  }
}
