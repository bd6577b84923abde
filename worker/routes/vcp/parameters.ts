/** What the partner read surface takes and who may call it, once for all of its routes. */
import { z } from 'zod';
import { uuid } from '../../../protocol/ids.ts';
import type { Who } from '../../auth/door.ts';

export const VCP_READ: Who = { door: 'api-key', scope: 'vcp:read' };

export const siteParameters = z.object({ siteId: uuid });
