/** The outcome of commands: their rows in the log, and the event chains that their partner received. */
import { expect } from 'vitest';
import type { Device } from './device.ts';
import type { Order, PartnerEvent, ReturningPartner } from './returning-partner.ts';
import { eventually, type TestStack } from './stack.ts';

/** A partner, a plant and its device, all seen from outside. */
export interface Scene {
  stack: TestStack;
  siteId: string;
  /** The partner's API key. */
  key: string;
  partner: ReturningPartner;
  device: Device;
}

export interface LogRow {
  messageId: string;
  correlationId: string;
  commandType: string;
  status: string;
  createdAt: string;
}

const PAGE_SIZE = 500;
/** A command that a killed stack lost on its way to the device is sent again when the device reconnects. */
const WHOLE_WITHIN_MS = 20_000;
const ENDS = ['COMPLETED', 'FAILED', 'DEVIATED'];

/** The whole command log of a site, as the partner reads it. */
export async function readLog(stack: TestStack, siteId: string, key?: string): Promise<LogRow[]> {
  const rows: LogRow[] = [];
  for (let page = 1; ; page++) {
    const path = `/vcp/sites/${siteId}/commands?page=${page}&pageSize=${PAGE_SIZE}`;
    const { status, body } = await stack.rest(path, key);
    if (status !== 200) throw new Error(`the command log answered ${status}`);
    const { items, total } = body as { items: LogRow[]; total: number };
    rows.push(...items);
    if (items.length < PAGE_SIZE) {
      expect(rows).toHaveLength(total);
      // The seed set the plant's configuration.
      return rows.filter(({ commandType }) => commandType !== 'CONFIG');
    }
  }
}

/** The events of one command, each once, in the order of their first arrival. */
export interface Chain {
  acknowledgements: string[];
  executions: string[];
}

export function chainsOf(events: readonly PartnerEvent[]): Map<string, Chain> {
  const seen = new Set<string>();
  const chains = new Map<string, Chain>();
  for (const { queue, messageId, correlationId, payload } of events) {
    if (correlationId === undefined || seen.has(`${queue}|${messageId}`)) continue;
    seen.add(`${queue}|${messageId}`);
    const chain = chains.get(correlationId) ?? { acknowledgements: [], executions: [] };
    chains.set(correlationId, chain);
    const list = queue === 'event.status' ? chain.acknowledgements : chain.executions;
    list.push(String(payload.status));
  }
  return chains;
}

/** Whether all events of these commands have arrived, from the acknowledgement to the end. */
export function areWhole(
  commands: readonly { correlationId: string }[],
  events: readonly PartnerEvent[],
): boolean {
  const chains = chainsOf(events);
  return commands.every(({ correlationId }) => {
    const chain = chains.get(correlationId);
    return chain?.acknowledgements.length && chain.executions.some((status) => ENDS.includes(status));
  });
}

/**
 * One acknowledgement, at most one EXECUTING, then one end [C-7.8]. No command is COMPLETED without having
 * started.
 */
export function expectOneChain(chain: Chain | undefined): void {
  expect(chain?.acknowledgements).toHaveLength(1);
  const executions = chain?.executions ?? [];
  const [last] = executions.slice(-1);
  expect(ENDS).toContain(last);
  const mayHaveFailedUnbegun = last === 'FAILED' && executions.length === 1;
  expect(executions.slice(0, -1)).toEqual(mayHaveFailedUnbegun ? [] : ['EXECUTING']);
}

/**
 * The required state after a kill: the log has each messageId at most once and every confirmed one, and each
 * logged command has one event chain to its end. The partner has sent nothing again. Returns the rows.
 */
export async function expectNothingLost(
  scene: Scene,
  orders: readonly Order[],
  confirmed: ReadonlySet<string>,
): Promise<LogRow[]> {
  const ours = new Set(orders.map((order) => order.messageId));
  const rows = (await readLog(scene.stack, scene.siteId, scene.key)).filter((row) => ours.has(row.messageId));
  const logged = rows.map((row) => row.messageId);
  expect(new Set(logged).size).toBe(logged.length);
  expect(logged).toEqual(expect.arrayContaining([...confirmed]));
  await eventually(() => areWhole(rows, scene.partner.events) || undefined, WHOLE_WITHIN_MS);
  const chains = chainsOf(scene.partner.events);
  for (const row of rows) expectOneChain(chains.get(row.correlationId));
  return rows;
}

/**
 * The required state after the partner sent every unconfirmed command again: each is in the log once,
 * reported once, and executed once.
 */
export async function expectNoSecondEffect(
  scene: Scene,
  orders: readonly (Order & { powerKw: number })[],
  confirmed: ReadonlySet<string>,
): Promise<void> {
  await eventually(() => scene.partner.connected || undefined);
  const again = orders.filter((order) => !confirmed.has(order.messageId));
  const outcomes = await Promise.all(again.map((order) => scene.partner.publish(order)));
  expect(outcomes).not.toContain(false);
  await eventually(() => areWhole(orders, scene.partner.events) || undefined, WHOLE_WITHIN_MS);
  const rows = await readLog(scene.stack, scene.siteId, scene.key);
  const chains = chainsOf(scene.partner.events);
  for (const { messageId, correlationId, powerKw } of orders) {
    expect(rows.filter((row) => row.messageId === messageId)).toHaveLength(1);
    const chain = chains.get(correlationId);
    expectOneChain(chain);
    expect(scene.device.times(powerKw)).toBe(chain?.executions.includes('COMPLETED') ? 1 : 0);
  }
}
