/** Seeds a benchmark's stack: organizations with API keys, plants, and more devices per plant. */
import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import { Bridge } from '../../bridge/bridge.ts';
import { readConfig } from '../../bridge/config.ts';
import type { CertificateFiles } from '../certificates.ts';
import { makeSecrets } from '../credentials.ts';
import { type Edge, type EdgeOptions, type EdgeSecrets, startEdge } from '../edge.ts';
import {
  type PlantSeed,
  type SeededPlant,
  seedApiKey,
  seedDevice,
  seedOrganization,
  seedPlant,
} from '../seed.ts';

export interface OrganizationOptions {
  slug: string;
  plants: number;
  /** Number of devices of each plant in addition to its gateway, and their type; default: gateways. */
  moreDevices?: number;
  moreType?: 'GATEWAY' | 'SENSOR';
  /** Number of API keys in addition to the first. */
  moreKeys?: number;
  /** Settings of the organization; default: the highest rates. */
  settings?: Record<string, number>;
  /** Ceilings that the operator raises; default: those that the highest rates need. */
  ceilings?: Record<string, number>;
}

export interface BenchKey {
  id: string;
  key: string;
  signingKey: string;
}

export interface SeededOrganization {
  id: string;
  slug: string;
  admin: { email: string; password: string };
  apiKey: BenchKey;
  moreKeys: BenchKey[];
  plants: SeededPlant[];
  /** More devices by plant id. */
  moreDevices: Map<string, SeededPlant['gateway'][]>;
}

/** The highest rates, because benchmarks must not be slowed down by rate limits; only `flood` reaches them. */
const HIGHEST_RATES = { publishRatePerSecond: 10_000, deviceRatePerSecond: 1_000 };
/** The rate of REST requests is raised because seeding itself sends many requests. */
const REST_RATE = { restRatePerMinute: 1_000_000 };
const HIGHEST_CEILINGS = {
  ...HIGHEST_RATES,
  ...REST_RATE,
  changesPerMinute: 100_000,
  keyTestsPerMinute: 1_000,
};

/** Seeds through an edge and a bridge of its own. Both have ended when this resolves. */
export async function seedBench(
  options: EdgeOptions,
  certificates: CertificateFiles,
  wanted: readonly OrganizationOptions[],
): Promise<SeededOrganization[]> {
  const edge = await startEdge(options);
  const environment = {
    SITEWIRE_EDGE_URL: edge.url,
    SITEWIRE_BRIDGE_SECRET: options.secrets.bridgeSecret,
    SITEWIRE_BRIDGE_ID: 'bridge-seed',
    SITEWIRE_TLS_CERT: certificates.certificate,
    SITEWIRE_TLS_KEY: certificates.key,
    SITEWIRE_AMQPS_PORT: String(options.amqp?.port),
    SITEWIRE_MQTTS_PORT: '0',
    SITEWIRE_METRICS_PORT: '0',
  };
  const bridge = new Bridge(readConfig(environment), pino({ level: 'warn' }));
  await bridge.start();
  const organizations: SeededOrganization[] = [];
  for (const one of wanted) organizations.push(await seedOne(edge, options.secrets, one));
  await bridge.stop();
  await edge.stop();
  return organizations;
}

async function seedOne(
  edge: Edge,
  { operatorToken = '' }: EdgeSecrets,
  options: OrganizationOptions,
): Promise<SeededOrganization> {
  const { ceilings = HIGHEST_CEILINGS } = options;
  const settings = { ...REST_RATE, ...(options.settings ?? HIGHEST_RATES) };
  const secrets = { ...makeSecrets(options.slug), operatorToken };
  const admin = await seedOrganization(edge.url, secrets, settings, ceilings);
  const id = admin.organizationId ?? '';
  const apiKey = await seedApiKey(admin);
  const moreKeys: BenchKey[] = [];
  for (let more = 0; more < (options.moreKeys ?? 0); more++) moreKeys.push(await seedApiKey(admin));
  const plants: SeededPlant[] = [];
  const moreDevices = new Map<string, SeededPlant['gateway'][]>();
  for (let count = 0; count < options.plants; count++) {
    const plant = await seedPlant(admin, newPlant());
    plants.push(plant);
    const devices: SeededPlant['gateway'][] = [];
    for (let more = 0; more < (options.moreDevices ?? 0); more++) {
      devices.push(await seedDevice(admin, plant.id, options.moreType ?? 'GATEWAY'));
    }
    moreDevices.set(plant.id, devices);
  }
  return { id, slug: options.slug, admin: secrets.admin, apiKey, moreKeys, plants, moreDevices };
}

export function newPlant(): PlantSeed {
  const id = randomUUID();
  const digits = BigInt(`0x${id.replaceAll('-', '').slice(0, 12)}`) % 10n ** 11n;
  return {
    name: `Plant ${id.slice(0, 8)}`,
    eanCons: `8591824${String(digits).padStart(11, '0')}`,
    eanProd: `8591825${String(digits).padStart(11, '0')}`,
    externalPlantId: null,
  };
}
