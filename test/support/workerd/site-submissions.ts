/** The submissions that a Vhost sends to a Site, and their answers as a partner reads them. */
import type { Asker } from '../../../durable-objects/ask-rpc.ts';
import type { OutboxEvent, Submission, SubmissionBatch, SubmitAnswer } from '../../../durable-objects/rpc.ts';
import type { DeviceCommandItem, SiteSetpoint } from '../../../protocol/command.ts';
import type { Acknowledgement, Alarm } from '../../../protocol/event.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { type CommandFamily, commandRoutingKey, FAMILY_RULES } from '../../../protocol/routing-keys.ts';
import { siteOf } from './world.ts';

/** A publish that its Vhost has authorized; its signature is valid if its family requires one. */
export function submission(
  family: CommandFamily,
  payload: unknown,
  changes: Partial<Submission> = {},
): Submission {
  return {
    messageId: crypto.randomUUID(),
    correlationId: null,
    source: 'partner',
    timestampMs: Date.now(),
    routingKey: commandRoutingKey('acme', family),
    family,
    payloadText: JSON.stringify(payload),
    signature: FAMILY_RULES[family].signed ? 'valid' : 'not-needed',
    ...changes,
  };
}

/** An item of a batch: a charge of the default battery. `changes` replaces any of its fields. */
export function batteryCommand(powerKw?: number, changes: Partial<DeviceCommandItem> = {}) {
  return {
    deviceId: 'BESS-1',
    assetType: 'BESS',
    command: 'BESS_CHARGE',
    ...(powerKw === undefined ? {} : { params: { powerKw } }),
    ...changes,
  } satisfies DeviceCommandItem;
}

/** The payload of a device command with these items. */
export function batch(...commands: DeviceCommandItem[]): { commands: DeviceCommandItem[] } {
  return { commands };
}

/** A charge of the battery as a publish of its own. */
export function charge(powerKw = 5, changes: Partial<Submission> = {}): Submission {
  return submission('device', batch(batteryCommand(powerKw)), changes);
}

/** The payload of a setpoint in kW that is valid from now on. `changes` replaces any of its fields. */
export function powerSetpoint(targetValueKw: number, changes: Partial<SiteSetpoint> = {}): SiteSetpoint {
  return {
    type: 'POWER',
    targetValueKw,
    direction: 'IMPORT',
    includeConsumption: true,
    priority: 'HIGH',
    validFrom: formatInstant(Date.now()),
    ...changes,
  };
}

/** The fields of the alarm of a violated limit. */
export function violation(constraint: string, limit: number, value: number) {
  return { type: 'CONSTRAINT_VIOLATION', constraint, limit, value };
}

/** One key's side of a Site: sends submissions and keeps the events that came back. */
export class Submitter {
  readonly siteId: string;
  readonly keyId: string;
  readonly partnerId: string;
  readonly events: OutboxEvent[] = [];
  #received = 0;
  /** The publishIds that were submitted before: a batch with one of them has `isRepeated`. */
  readonly #published = new Set<string>();

  /** `partnerId`: by default that of the keys that `createKey` makes. */
  constructor(siteId: string, keyId: string = crypto.randomUUID(), partnerId = 'partner') {
    this.siteId = siteId;
    this.keyId = keyId;
    this.partnerId = partnerId;
  }

  /** Who asks a Site with this key. */
  get asker(): Asker {
    return { partnerId: this.partnerId, sees: 'PARTNER', slug: 'acme' };
  }

  async submit(...submissions: Submission[]): Promise<SubmitAnswer> {
    const answer = await siteOf(this.siteId).submit(this.batchOf(submissions));
    for (const event of answer.events) {
      if (event.sequence <= this.#received) continue;
      this.#received = event.sequence;
      this.events.push(event);
    }
    return answer;
  }

  batchOf(submissions: Submission[]): SubmissionBatch {
    return {
      siteId: this.siteId,
      keyId: this.keyId,
      keyPrefix: 'sw_test',
      partnerId: this.partnerId,
      received: this.#received,
      seen: this.#received,
      notAfterMs: Number.MAX_SAFE_INTEGER,
      isRepeated: this.#isRepeated(submissions),
      submissions,
    };
  }

  #isRepeated(submissions: readonly Submission[]): boolean {
    const names = submissions.flatMap(({ publishId }) => publishId ?? []);
    const isRepeated = names.some((name) => this.#published.has(name));
    for (const name of names) this.#published.add(name);
    return isRepeated;
  }

  /** Submits one and returns its acknowledgement. */
  async acknowledge(one: Submission): Promise<Acknowledgement> {
    return JSON.parse((await this.acknowledgeEvent(one)).payloadText) as Acknowledgement;
  }

  async acknowledgeEvent(one: Submission): Promise<OutboxEvent> {
    const before = this.events.length;
    await this.submit(one);
    const event = this.events.slice(before).find((candidate) => candidate.kind === 'ack');
    if (!event) throw new Error('no acknowledgement');
    return event;
  }

  alarms(): Alarm[] {
    return this.events
      .filter((event) => event.kind === 'alarm')
      .map((event) => JSON.parse(event.payloadText) as Alarm);
  }
}
