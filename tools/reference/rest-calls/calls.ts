/** The calls of the REST reference in an order in which they run, from an empty organization to its end. */
import { ACCOUNT_CALLS, END_CALLS } from './account-calls.ts';
import { BACKUP_CALLS } from './backup-calls.ts';
import type { Call } from './call.ts';
import { DEVICE_CALLS, PLANT_CALLS } from './fleet-calls.ts';
import { ALERT_CALLS, KEY_CALLS, OPERATOR_CALLS, SITE_CALLS, WEBHOOK_CALLS } from './site-calls.ts';

export { END_CALLS };

export const CALLS: readonly Call[] = [
  ...[...ACCOUNT_CALLS, ...PLANT_CALLS, ...DEVICE_CALLS, ...KEY_CALLS],
  ...[...SITE_CALLS, ...ALERT_CALLS, ...WEBHOOK_CALLS, ...OPERATOR_CALLS, ...BACKUP_CALLS],
];
