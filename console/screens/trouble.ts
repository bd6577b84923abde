/** How much attention a site needs: it sorts the list of sites. Pure. */
import type { Attention } from '../api/row-values.ts';
import type { Alert, Plant } from '../api/types.ts';

const STATUS_TROUBLE = { OFFLINE: 30, DEGRADED: 20, PENDING: 5, ONLINE: 0 } as const;
/** The least serious first. */
export const SEVERITIES = ['INFO', 'WARNING', 'CRITICAL'] as const;
const SEVERITY_TROUBLE = { CRITICAL: 25, WARNING: 10, INFO: 1 } as const;

const DEVIATION_TROUBLE = 8;
const WAITING_TROUBLE = 2;

/**
 * The status counts most, then the worst alert, then a deviation from the plan, then commands that wait, then how many
 * alerts there are. `attention`: undefined where nobody has looked.
 */
export function troubleOf(
  plant: Pick<Plant, 'status'>,
  alerts: readonly Pick<Alert, 'severity'>[],
  attention?: Attention,
): number {
  const worst = Math.max(0, ...alerts.map(({ severity }) => SEVERITY_TROUBLE[severity]));
  const beside =
    (attention?.deviates ? DEVIATION_TROUBLE : 0) +
    (attention && attention.waiting > 0 ? WAITING_TROUBLE : 0);
  return STATUS_TROUBLE[plant.status] + worst + beside + Math.min(alerts.length, 9) / 10;
}
