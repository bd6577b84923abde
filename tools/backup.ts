/**
 * `npm run sitewire -- admin backup`, `restore` and `rehearse`: the data of one plant or one API key in a file, and back. Each
 * command raises a fence and lowers it at its end, also when it fails.
 */
import { createReadStream } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import type { Operator } from './admin-client.ts';

export interface BackupObject {
  object: 'plant' | 'key';
  id: string;
}

/** What a command did: rows of the backup, and how long the fence was up. */
export interface BackupReport {
  rows: number;
  fencedMs: number;
}

/** As JSON in UTF-8 a part stays below the limit of a body, whatever its characters are. */
const STAGED_CHARS = 150_000;

/** Writes a backup to a new file that only its owner can read; a backup that fails leaves no file. */
export async function backUp(operator: Operator, object: BackupObject, path: string): Promise<BackupReport> {
  const file = await open(path, 'wx', 0o600);
  try {
    let end = '';
    return await behindFence(operator, object, async (fence) => {
      for await (const text of partsOf(operator, object, fence)) {
        await file.write(text);
        end = text;
      }
      await file.sync();
      return rowsAtEnd(end);
    });
  } catch (error) {
    await rm(path);
    throw error;
  } finally {
    await file.close();
  }
}

/** Replaces the data of the object with the backup. A backup that is refused changes nothing. */
export async function restore(
  operator: Operator,
  object: BackupObject,
  path: string,
): Promise<BackupReport & { changedDevices: number }> {
  return await restoreFrom(operator, object, () => createReadStream(path, { encoding: 'utf8' }));
}

/**
 * Backs up and restores behind one fence: nothing changes in between, so nothing is lost. It shows that both work, and
 * how long they take.
 */
export async function rehearse(
  operator: Operator,
  object: BackupObject,
): Promise<BackupReport & { changedDevices: number }> {
  return await restoreFrom(operator, object, (fence) => partsOf(operator, object, fence));
}

async function restoreFrom(
  operator: Operator,
  object: BackupObject,
  source: (fence: string) => AsyncIterable<string>,
): Promise<BackupReport & { changedDevices: number }> {
  let changedDevices = 0;
  const report = await behindFence(operator, object, async (fence) => {
    await stageAll(operator, object, fence, source(fence));
    const restored = await operator.call<{ rows: number; changedDevices: number }>(
      'POST',
      '/backups/restore',
      { ...object, fence },
    );
    changedDevices = restored.changedDevices;
    return restored.rows;
  });
  return { ...report, changedDevices };
}

/** Stores all of a backup behind a fence. */
export async function stageAll(
  operator: Operator,
  object: BackupObject,
  fence: string,
  source: AsyncIterable<string>,
): Promise<void> {
  let part = 0;
  for await (const text of source)
    for (let at = 0; at < text.length; at += STAGED_CHARS) {
      const body = { ...object, fence, part, text: text.slice(at, at + STAGED_CHARS) };
      await operator.call('POST', '/backups/stage', body);
      part += 1;
    }
}

async function behindFence(
  operator: Operator,
  object: BackupObject,
  work: (fence: string) => Promise<number>,
): Promise<BackupReport> {
  const { fence } = await operator.call<{ fence: string }>('POST', '/backups/fence', object);
  const raisedMs = performance.now();
  try {
    const rows = await work(fence);
    await operator.call('POST', '/backups/end', { ...object, fence });
    return { rows, fencedMs: Math.round(performance.now() - raisedMs) };
  } catch (error) {
    // If this fails, too, the fence ends by itself after its time.
    await operator.ask('POST', '/backups/end', { ...object, fence });
    throw error;
  }
}

/** The parts of a backup. */
export async function* partsOf(
  operator: Operator,
  object: BackupObject,
  fence: string,
): AsyncGenerator<string> {
  for (let after: string | null | undefined; after !== null; ) {
    const part: { text: string; next: string | null } = await operator.call('POST', '/backups/read', {
      ...object,
      fence,
      ...(after === undefined ? {} : { after }),
    });
    yield part.text;
    after = part.next;
  }
}

/** The last line of a backup has the number of its rows. */
function rowsAtEnd(text: string): number {
  const last = text.trimEnd().split('\n').at(-1) ?? '';
  return (JSON.parse(last) as { rows: number }).rows;
}
