/** The version of Sitewire, from package.json. */
import { readFileSync } from 'node:fs';
import { z } from 'zod';

const { version } = z
  .object({ version: z.string() })
  .parse(JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')));

export const VERSION = version;
