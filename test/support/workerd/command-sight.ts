/**
 * Commands whose ids, words and numbers are unmistakable, and a search of raw answers for them: what one partner may know
 * of another [C-15.1].
 */
import type { Acknowledgement } from '../../../protocol/event.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { CommandAnswer } from '../../../protocol/rest-publish.ts';
import { type CommandFamily, commandRoutingKey } from '../../../protocol/routing-keys.ts';
import type { KeyClient } from './client.ts';
import type { DeviceTestLink } from './links.ts';
import { operator } from './operator.ts';
import { envelopeFields, sign } from './partner.ts';
import { connectListening, sendAck } from './site-devices.ts';
import { sentCommands } from './site-plan.ts';
import type { Team } from './team.ts';
import {
  createKey,
  createPlant,
  DEFAULT_SUB_DEVICES,
  type KeyOptions,
  LIMITED,
  type Plant,
  randomHex,
} from './world.ts';

/** A text that shows that an answer contains something of a partner. */
export interface Mark {
  what: string;
  text: string;
  pattern: RegExp;
}

/** An id or a word, in any case, but not as the beginning of a longer one. */
export function word(what: string, text: string): Mark {
  return { what, text, pattern: new RegExp(`${escaped(text)}(?![A-Za-z0-9])`, 'i') };
}

/** A number, but not as a part of another number or of a time. */
export function number(what: string, value: number): Mark {
  return {
    what,
    text: String(value),
    pattern: new RegExp(`(?<![\\d.]|\\d:)${escaped(String(value))}(?!\\d)`),
  };
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

/** What an answer contains of these marks, each with the text around it. */
export function found(answer: string, marks: readonly Mark[]): string[] {
  return marks.flatMap(({ what, pattern }) => {
    const at = answer.search(pattern);
    return at < 0 ? [] : [`${what}: …${answer.slice(Math.max(0, at - 60), at + 60)}…`];
  });
}

/** A command that a key has sent. */
export interface Sent {
  family: CommandFamily;
  messageId: string;
  commandId: string;
  acknowledgement: Acknowledgement;
  /** The scheduleId of a schedule. */
  scheduleId?: string;
}

/** Numbers and words of a payload that no other command has. */
export interface Own {
  numbers?: readonly number[];
  words?: readonly string[];
  scheduleId?: string;
}

/** A key of a partner. All keys of a partner share its marks. */
export class Sender {
  readonly name: string;
  readonly partnerId: string;
  readonly client: KeyClient;
  readonly slug: string;
  readonly siteId: string;
  readonly marks: Mark[];
  readonly sent: Sent[];
  /** Texts of other partners that this partner has written into requests: it knows them. */
  readonly known: Set<string>;

  private constructor(
    name: string,
    shared: Pick<Sender, 'partnerId' | 'slug' | 'siteId' | 'marks' | 'sent' | 'known'>,
    client: KeyClient,
  ) {
    this.name = name;
    this.client = client;
    this.partnerId = shared.partnerId;
    this.slug = shared.slug;
    this.siteId = shared.siteId;
    this.marks = shared.marks;
    this.sent = shared.sent;
    this.known = shared.known;
    this.marks.push(
      word(`the id of key ${name}`, client.id),
      word(`the prefix of key ${name}`, client.key.slice(0, 11)),
    );
  }

  static async create(team: Team, siteId: string, name: string, options: KeyOptions = {}): Promise<Sender> {
    const { partnerId = `partner-${name}-${randomHex(4)}` } = options;
    const client = await createKey(team.organization, { ...options, partnerId });
    const marks = [word(`the partnerId of ${name}`, partnerId)];
    const shared = { partnerId, slug: team.slug, siteId, marks, sent: [], known: new Set<string>() };
    return new Sender(name, shared, client);
  }

  /** Another key of the same partner. */
  async sibling(team: Team, name: string, options: KeyOptions = {}): Promise<Sender> {
    const { partnerId } = this;
    return new Sender(name, this, await createKey(team.organization, { ...options, partnerId }));
  }

  /** The same key at another site. */
  at(siteId: string): Sender {
    return Object.assign(Object.create(Sender.prototype), this, { siteId });
  }

  /** The marks of others that this partner must not see. */
  hidden(others: Iterable<Sender>): Mark[] {
    const marks = [...others].filter(({ partnerId }) => partnerId !== this.partnerId).map((one) => one.marks);
    const own = new Set(this.marks.map(({ text }) => text));
    return [...new Set(marks)].flat().filter(({ text }) => !this.known.has(text) && !own.has(text));
  }

  /** The body of a publish over HTTPS, with a correlationId and a source that no other command has. */
  message(
    family: CommandFamily,
    payload: object,
    changes: { messageId?: string; verb?: string; isUnsigned?: boolean } = {},
  ) {
    const routingKey = commandRoutingKey(this.slug, family).replace(/\.set$/, `.${changes.verb ?? 'set'}`);
    const fields = {
      ...envelopeFields(this.siteId),
      ...(changes.messageId === undefined ? {} : { messageId: changes.messageId }),
      correlationId: `corr-${this.name}-${randomHex(4)}`,
      source: `source-${this.name}-${randomHex(4)}`,
    };
    const signature = sign(this.client.signingKey, fields, routingKey, JSON.stringify(payload));
    const { isUnsigned = false } = changes;
    const message = JSON.stringify({ ...fields, payload, ...(isUnsigned ? {} : { signature }) });
    return { ...fields, body: { routingKey, message } };
  }

  /** Sends a command and notes its marks. */
  async send(
    family: CommandFamily,
    payload: object,
    own: Own = {},
    changes: Parameters<Sender['message']>[2] = {},
  ): Promise<Sent> {
    const { messageId, correlationId, source, body } = this.message(family, payload, changes);
    const path = `/vcp/sites/${this.siteId}/commands`;
    const { acknowledgement, commandId } = await this.client.read<CommandAnswer>(path, {
      method: 'POST',
      body,
    });
    const { numbers = [], words = [], scheduleId } = own;
    const of = `of the ${family} of ${this.name}`;
    this.marks.push(
      word(`the command id ${of}`, commandId),
      word(`the messageId ${of}`, messageId),
      word(`the correlationId ${of}`, correlationId),
      word(`the source ${of}`, source),
      ...numbers.map((value) => number(`a number ${of}`, value)),
      ...words.map((text) => word(`a word ${of}`, text)),
      ...(scheduleId === undefined ? [] : [word(`the scheduleId ${of}`, scheduleId)]),
    );
    const sent = { family, messageId, commandId, acknowledgement, ...(scheduleId ? { scheduleId } : {}) };
    this.sent.push(sent);
    return sent;
  }

  /** The text of an answer, whatever its status. */
  async ask(path: string, body?: object): Promise<string> {
    const response = await this.client.call(path, body ? { method: 'POST', body } : {});
    return await response.text();
  }
}

// payloads

/** A time from now, as a payload has it. */
export function inMs(ms: number): string {
  return formatInstant(Date.now() + ms);
}

export function setpoint(
  targetValueKw: number,
  priority: 'NORMAL' | 'HIGH' | 'EMERGENCY',
  forMs?: number,
): Record<string, unknown> {
  return {
    ...{ type: 'POWER', targetValueKw, direction: 'IMPORT', includeConsumption: true, priority },
    validFrom: inMs(-1_000),
    ...(forMs === undefined ? {} : { validUntil: inMs(forMs) }),
  };
}

export function charge(deviceId: string, powerKw: number): Record<string, unknown> {
  return { commands: [{ deviceId, assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw } }] };
}

export function schedule(
  scheduleId: string,
  values: readonly number[],
  startsInMs = 0,
): Record<string, unknown> {
  return {
    ...{ scheduleId, startTime: inMs(startsInMs), slotDurationMinutes: 15 },
    slots: values.map((value, slotIndex) => ({ slotIndex, mode: 'STANDARD', setpoint: { value } })),
  };
}

// the plant

/** A plant whose gateway is subscribed to commands. */
export interface SightPlant {
  plant: Plant;
  link: DeviceTestLink;
  /** The gateway answers all commands that it has not answered yet. */
  obey(status?: 'RECEIVED' | 'COMPLETED' | 'FAILED'): Promise<void>;
}

const BATTERY = { externalId: 'BESS-2', assetType: 'BESS', ratedPowerKw: 60, capacityKwh: 100 } as const;

/** A plant with two batteries, whose gateway is not connected yet. */
export async function newSightPlant(team: Team): Promise<Plant> {
  const subDevices = [...DEFAULT_SUB_DEVICES, BATTERY];
  return await createPlant(team.organization, { config: LIMITED, subDevices });
}

/** Connects the gateway. Call it when all keys are there: the site reads them now, and sends alarms to these alone. */
export async function connectGateway(plant: Plant): Promise<SightPlant> {
  const link = await connectListening(plant);
  const answered = new Set<string>();
  const obey: SightPlant['obey'] = async (status = 'RECEIVED') => {
    for (const { cmdId } of await sentCommands(link, plant)) {
      if (answered.has(cmdId)) continue;
      answered.add(cmdId);
      await sendAck(link, plant.gateway, cmdId, status);
    }
  };
  return { plant, link, obey };
}

/** Raises the limits of an organization that a suite with thousands of requests reaches. */
export async function raiseLimits(team: Team): Promise<void> {
  const settings = { restRatePerMinute: 1_000_000, publishRatePerSecond: 5_000 };
  await operator.change(`/platform/organizations/${team.id}/limits`, {
    ...settings,
    changesPerMinute: 100_000,
  });
  await team.orgAdmin.change(`/organizations/${team.id}`, { settings });
}

// the reads of a key

/** A time around now, as a query. */
export function around(ms = 3_600_000): string {
  return `from=${inMs(-ms)}&to=${inMs(ms)}`;
}

/** Every read of a partner, by its name: the path for a site. `past`: a moment at which the commands were there. */
export const READS: Readonly<Record<string, (siteId: string, past: string) => string>> = {
  sites: () => '/vcp/sites',
  config: (id) => `/vcp/sites/${id}/config`,
  'the command log': (id) => `/vcp/sites/${id}/commands?pageSize=500`,
  'a page of the command log': (id) => `/vcp/sites/${id}/commands?page=2&pageSize=3`,
  'the command log of a moment': (id, past) => `/vcp/sites/${id}/commands?pageSize=500&at=${past}`,
  schedules: (id) => `/vcp/sites/${id}/schedules`,
  'schedules of a time': (id) => `/vcp/sites/${id}/schedules?${around(48 * 3_600_000)}`,
  explain: (id) => `/vcp/sites/${id}/explain`,
  'explain of a moment': (id, past) => `/vcp/sites/${id}/explain?at=${past}`,
  'the changes of explain': (id) => `/vcp/sites/${id}/explain?${around()}`,
  'the latest telemetry': (id) => `/vcp/sites/${id}/telemetry/latest`,
  'the telemetry of a moment': (id, past) => `/vcp/sites/${id}/telemetry/latest?at=${past}`,
  'the history of telemetry': (id) => `/vcp/sites/${id}/telemetry?metric=gridPowerKw&${around()}`,
  'meter readings': (id) => `/vcp/sites/${id}/meter-readings`,
  events: () => '/vcp/events?limit=500',
  'events of a site': (id) => `/vcp/events?limit=500&siteId=${id}`,
  alarms: () => '/vcp/events?limit=500&type=alarm',
  'acknowledgements and executions': () => '/vcp/events?limit=500&type=execution',
  'dead letters': () => '/vcp/dead-letters?limit=100',
};
