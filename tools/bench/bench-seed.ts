/** What a benchmark's stack consists of: organizations with a key, plants and more devices to a plant. */
import { randomBytes, randomUUID } from 'node:crypto';
import type { Miniflare } from 'miniflare';
import { makeCredentials } from '../credentials.ts';
import { type EdgeOptions, startEdge } from '../edge.ts';
import { siteOf } from '../objects.ts';
import { type PlantSeed, seedApiKey, seedOrganization, seedPlant } from '../seed.ts';

export interface OrganizationOptions {
  slug: string;
  plants: number;
  /** Gateways of each plant beside its first. */
  moreDevices?: number;
  /** What the organization sets for itself; the highest rates when nothing is said. */
  settings?: Record<string, number>;
}

export interface SeededOrganization {
  id: string;
  slug: string;
  apiKey: { id: string; key: string; signingKey: string };
  plants: PlantSeed[];
  /** By plant id. */
  moreDevices: Map<string, PlantSeed['gateway'][]>;
}

/** What is measured is the way, not the brake: rates that no benchmark but `flood` reaches. */
const HIGHEST_RATES = { publishRatePerSecond: 10_000, deviceRatePerSecond: 1_000 };

/** Seeds through an edge of its own, which has ended when this resolves. */
export async function seedBench(
  options: EdgeOptions,
  wanted: readonly OrganizationOptions[],
): Promise<SeededOrganization[]> {
  const edge = await startEdge(options);
  const organizations: SeededOrganization[] = [];
  for (const one of wanted) organizations.push(await seedOne(edge.miniflare, one));
  await edge.stop();
  return organizations;
}

async function seedOne(miniflare: Miniflare, options: OrganizationOptions): Promise<SeededOrganization> {
  const credentials = makeCredentials(options.slug);
  const { organization, apiKey, admin } = credentials;
  await seedOrganization(miniflare, credentials, options.settings ?? HIGHEST_RATES);
  await seedApiKey(miniflare, organization, admin.id, apiKey);
  const plants: PlantSeed[] = [];
  const moreDevices = new Map<string, PlantSeed['gateway'][]>();
  for (let count = 0; count < options.plants; count++) {
    const plant = newPlant();
    await seedPlant(miniflare, organization.id, plant);
    plants.push(plant);
    const devices: PlantSeed['gateway'][] = [];
    for (let more = 0; more < (options.moreDevices ?? 0); more++) {
      devices.push(await seedDevice(miniflare, organization.id, plant.id));
    }
    moreDevices.set(plant.id, devices);
  }
  return { id: organization.id, slug: options.slug, apiKey, plants, moreDevices };
}

function newPlant(): PlantSeed {
  const id = randomUUID();
  const digits = BigInt(`0x${id.replaceAll('-', '').slice(0, 12)}`) % 10n ** 11n;
  return {
    id,
    name: `Plant ${id.slice(0, 8)}`,
    eanCons: `8591824${String(digits).padStart(11, '0')}`,
    eanProd: `8591825${String(digits).padStart(11, '0')}`,
    externalPlantId: null,
    gateway: { id: randomUUID(), hmacSecret: randomBytes(32).toString('hex') },
  };
}

async function seedDevice(
  miniflare: Miniflare,
  organizationId: string,
  plantId: string,
): Promise<PlantSeed['gateway']> {
  const device = { id: randomUUID(), hmacSecret: randomBytes(32).toString('hex') };
  const database = await miniflare.getD1Database('DB');
  const now = Date.now();
  await database
    .prepare(
      `INSERT INTO devices (id, organization_id, plant_id, name, serial_number, type, auth_method, status, provisioned_at_ms, created_at_ms)
       VALUES (?, ?, ?, 'One more', ?, 'GATEWAY', 'TOKEN', 'ACTIVE', ?, ?)`,
    )
    .bind(device.id, organizationId, plantId, `GW-${device.id.slice(0, 8)}`, now, now)
    .run();
  const site = await siteOf(miniflare, plantId);
  await site.adoptDevice({
    siteId: plantId,
    plantId,
    deviceId: device.id,
    type: 'GATEWAY',
    hmacSecret: device.hmacSecret,
  });
  return device;
}
