/** The door of all reads of partners, and the parameter of those of one site (spec: Partner read surface). */
import * as z from 'zod';
import { uuid } from '../../../protocol/ids.ts';
import type { Who } from '../../auth/door.ts';

export const VCP_READ = { door: 'api-key', scope: 'vcp:read' } as const satisfies Who;
export const siteParameters = z.object({ siteId: uuid });
