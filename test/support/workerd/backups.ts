/** Backups over REST, as `npm run sitewire -- admin backup` and `restore` make them. */
import type { RestoreAnswer } from '../../../durable-objects/backup-rpc.ts';
import { operator } from './operator.ts';

export interface BackupObject {
  object: 'plant' | 'key';
  id: string;
}

export function ask(step: string, body: object): Promise<Response> {
  return operator.post(`/platform/backups/${step}`, body);
}

export async function raise(object: BackupObject, minutes?: number): Promise<string> {
  const path = '/platform/backups/fence';
  return (await operator.create<{ fence: string }>(path, { ...object, minutes })).fence;
}

async function step<Answer>(name: string, body: object): Promise<Answer> {
  return await operator.read<Answer>(`/platform/backups/${name}`, { method: 'POST', body });
}

/** The parts of a backup behind a fence. */
export async function readParts(object: BackupObject, fence: string): Promise<string[]> {
  const parts: string[] = [];
  for (let after: string | null | undefined; after !== null; ) {
    const part: { text: string; next: string | null } = await step('read', { ...object, fence, after });
    parts.push(part.text);
    after = part.next;
  }
  return parts;
}

export async function lower(object: BackupObject, fence: string): Promise<void> {
  await step('end', { ...object, fence });
}

export async function backUp(object: BackupObject): Promise<string> {
  const fence = await raise(object);
  const parts = await readParts(object, fence);
  await lower(object, fence);
  return parts.join('');
}

/** Stages a backup in parts of that many characters, behind a new fence, and returns the answer to the restore. */
export async function tryRestore(object: BackupObject, text: string, size = 100_000): Promise<Response> {
  const fence = await raise(object);
  for (let at = 0; at < text.length; at += size)
    await step('stage', { ...object, fence, part: at / size, text: text.slice(at, at + size) });
  const answer = await ask('restore', { ...object, fence });
  await lower(object, fence);
  return answer;
}

export async function restore(object: BackupObject, text: string, size?: number) {
  const answer = await tryRestore(object, text, size);
  if (answer.status !== 200) throw new Error(await answer.text());
  return await answer.json<RestoreAnswer & { changedDevices: number }>();
}
