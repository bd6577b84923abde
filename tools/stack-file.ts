/** `.dev/stack.json`: addresses and credentials of the running stack. Every tool finds the stack through it. */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { AssetType } from '../protocol/enums.ts';
import type { SimulatorSetting } from './simulator/behaviour.ts';

export interface Endpoint {
  host: string;
  port: number;
  /** PEM file, absolute. */
  ca: string;
}

export interface Stack {
  pids: { stack: number; edge: number | null; bridge: number | null; simulator: number | null };
  baseUrl: string;
  amqp: Endpoint;
  mqtt: Endpoint;
  /** The listener for devices that log in with a certificate. */
  mqttMtls: Endpoint;
  metricsUrl: string;
  /** Current behaviour of the simulated plant. */
  simulator: SimulatorSetting;
  /** The edge's metrics endpoint and the token that it requires. */
  edgeMetrics: { url: string; token: string };
  /** The folder with the mails of this stack; null if it sends them to a mail server. */
  mail: string | null;
  /** The operator's token. */
  operator: { token: string };
  admin: { email: string; password: string };
  organization: { id: string; slug: string };
  apiKey: { id: string; key: string; signingKey: string; vhost: string; scopes: string[] };
  plants: {
    id: string;
    name: string;
    eanCons: string;
    eanProd: string;
    gatewayId: string;
    subDevices: { deviceId: string; assetType: AssetType }[];
  }[];
}

export function dataFolder(): string {
  return resolve(process.env.SITEWIRE_DATA_DIR ?? '.dev');
}

function stackFile(folder: string): string {
  return join(folder, 'stack.json');
}

export function writeStack(folder: string, stack: Stack): void {
  const file = stackFile(folder);
  writeFileSync(`${file}.new`, `${JSON.stringify(stack, null, 2)}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

export function removeStack(folder: string): void {
  rmSync(stackFile(folder), { force: true });
}

/** Throws a message for the user if no stack runs on the folder. */
export function readStack(folder: string = dataFolder()): Stack {
  try {
    return JSON.parse(readFileSync(stackFile(folder), 'utf8')) as Stack;
  } catch {
    throw new Error(`no stack is running on ${folder}: start one with \`npm start\``);
  }
}
