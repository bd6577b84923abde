/** How much attention a site needs: it sorts the list of sites. Pure. */
import type { Alert, Plant } from '../api/types.ts';

const STATUS_TROUBLE = { OFFLINE: 30, DEGRADED: 20, PENDING: 5, ONLINE: 0 } as const;
const SEVERITY_TROUBLE = { CRITICAL: 25, WARNING: 10, INFO: 1 } as const;

/** The status counts most, then the worst alert, then how many alerts there are. */
export function troubleOf(plant: Pick<Plant, 'status'>, alerts: readonly Pick<Alert, 'severity'>[]): number {
  const worst = Math.max(0, ...alerts.map(({ severity }) => SEVERITY_TROUBLE[severity]));
  return STATUS_TROUBLE[plant.status] + worst + Math.min(alerts.length, 9) / 10;
}
