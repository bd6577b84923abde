/** The Site that serves a device: that of its plant, or its own if it has no plant. */

import type { SiteStub } from '../../durable-objects/env.ts';
import { objectNamed } from '../../durable-objects/object-id.ts';
import type { DeviceRow } from '../../registry/devices.ts';
import type { Env } from '../env.ts';

export function siteIdOf({ id, plantId }: Pick<DeviceRow, 'id' | 'plantId'>): string {
  return plantId ?? id;
}

export function siteOf(env: Env, device: Pick<DeviceRow, 'id' | 'plantId'>): SiteStub {
  return siteById(env, siteIdOf(device));
}

export function siteById(env: Env, siteId: string): SiteStub {
  return objectNamed(env, 'SITE', siteId);
}
