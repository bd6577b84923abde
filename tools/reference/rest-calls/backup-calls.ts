/** The calls that back up and restore a plant. */
import { Operator } from '../../admin-client.ts';
import { type BackupObject, partsOf, stageAll } from '../../backup.ts';
import type { Call } from './call.ts';
import type { World } from './world.ts';

const PLANT = { object: 'plant', id: '$PLANT' } as const;
const FENCED = { ...PLANT, fence: '$FENCE' } as const;
/** The header of a backup: a part of its own is enough to show how parts are stored. */
const HEADER =
  '{"sitewire":"backup","format":1,"object":"plant","id":"5a1d3c52-3f5b-4b8e-9a55-2a9c4b1d7e10","schemaVersion":1,"takenAtMs":1768471200000}\n';

/** Reads a backup and stages it again, behind the fence that the calls before raised. */
async function stagePlant({ stack, variables }: World): Promise<undefined> {
  const { PLANT: id = '', FENCE: fence = '' } = variables;
  const object: BackupObject = { object: 'plant', id };
  const operator = new Operator(stack.baseUrl, stack.operator.token);
  await stageAll(operator, object, fence, partsOf(operator, object, fence));
}

export const BACKUP_CALLS: readonly Call[] = [
  { route: 'POST /api/v1/platform/backups/fence', body: { ...PLANT, minutes: 5 }, save: { FENCE: 'fence' } },
  { route: 'POST /api/v1/platform/backups/read', body: FENCED },
  { route: 'POST /api/v1/platform/backups/stage', body: { ...FENCED, part: 0, text: HEADER } },
  {
    route: 'POST /api/v1/platform/backups/restore',
    note: 'All parts of the backup are stored.',
    body: FENCED,
    prepare: stagePlant,
  },
  { route: 'POST /api/v1/platform/backups/end', body: FENCED },
];
