/** Access rule and path parameters that the routes of the partner read surface share. */
import { z } from 'zod';
import { uuid } from '../../../protocol/ids.ts';
import type { Who } from '../../auth/door.ts';

export const VCP_READ: Who = { door: 'api-key', scope: 'vcp:read' };

export const siteParameters = z.object({ siteId: uuid });
