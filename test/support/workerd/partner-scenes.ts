/** Partners to begin a test with: a key of an organization, and its client on a first link. */
import { Partner } from './partner.ts';
import {
  createKey,
  createOrganization,
  createPlant,
  type Key,
  type KeyOptions,
  type Organization,
  type Plant,
} from './world.ts';

type DialOptions = Parameters<typeof Partner.connect>[2];

export interface PartnerScene {
  organization: Organization;
  key: Key;
  partner: Partner;
  /** The id of a site that the key may see; without a plant a random id, for events that the test sends. */
  siteId: string;
  /** Opens another link of the key. */
  connect(options?: DialOptions): Promise<Partner>;
}

/** A partner of a new organization, or of the one that is given. */
export async function openPartner(
  options: KeyOptions & { organization?: Organization } = {},
): Promise<PartnerScene> {
  const { organization = await createOrganization(), ...keyOptions } = options;
  const key = await createKey(organization, keyOptions);
  const connect = (dial?: DialOptions) => Partner.connect(organization, key, dial);
  const siteId = keyOptions.allowedPlantIds?.[0] ?? crypto.randomUUID();
  return { organization, key, partner: await connect(), siteId, connect };
}

/** A partner with a plant that it may command; the plant is created before the key and its link. */
export async function openPartnerWithPlant(
  options: KeyOptions & { settings?: Record<string, unknown> } = {},
): Promise<PartnerScene & { plant: Plant }> {
  const { settings, ...keyOptions } = options;
  const organization = await createOrganization(settings);
  const plant = await createPlant(organization);
  return { ...(await openPartner({ ...keyOptions, organization })), siteId: plant.id, plant };
}
