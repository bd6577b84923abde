/** One stack per data folder: the lock's holder, the refusal of others, and a holder that ends or hangs. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { afterEach, describe, expect, it } from 'vitest';
import { holderOf, lockFolder } from '../../tools/folder-lock.ts';

const LOCK = new URL('../../tools/folder-lock.ts', import.meta.url).href;
const holders: ChildProcess[] = [];

afterEach(() => {
  for (const holder of holders.splice(0)) holder.kill('SIGKILL');
});

/** A process that takes the folder and, on request, is busy for a while. */
async function hold(folder: string): Promise<ChildProcess> {
  const source = `
    const { lockFolder } = await import(${JSON.stringify(LOCK)});
    await lockFolder(${JSON.stringify(folder)});
    process.on('message', (busyMs) => {
      process.send('busy');
      const untilMs = Date.now() + busyMs;
      while (Date.now() < untilMs);
    });
    process.send('held');`;
  const holder = spawn(process.execPath, ['--input-type=module', '-e', source], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  holders.push(holder);
  await once(holder, 'message');
  return holder;
}

describe('a folder', () => {
  it('is held by the process that took it, until that process ends', async () => {
    const folder = randomUUID();
    expect(await holderOf(folder)).toBeUndefined();
    const holder = await hold(folder);
    expect(await holderOf(folder)).toBe(holder.pid);
    holder.kill('SIGKILL');
    await once(holder, 'exit');
    expect(await holderOf(folder)).toBeUndefined();
    await lockFolder(folder);
    expect(await holderOf(folder)).toBe(process.pid);
  });

  it('is refused to a second process with an error that names the first, even if that is busy for seconds', async () => {
    const folder = randomUUID();
    const holder = await hold(folder);
    holder.send(2_000);
    await once(holder, 'message');
    await expect(lockFolder(folder)).rejects.toThrow(
      `a stack is running on ${folder} (process ${holder.pid}): stop it, or set SITEWIRE_DATA_DIR to another folder`,
    );
  });

  it('is taken over once an unresponsive holder has ended', async () => {
    const folder = randomUUID();
    const holder = await hold(folder);
    holder.kill('SIGSTOP');
    const taken = lockFolder(folder);
    await expect(holderOf(folder)).rejects.toThrow('no answer');
    holder.kill('SIGKILL');
    await taken;
    expect(await holderOf(folder)).toBe(process.pid);
  });

  it('is refused while its holder does not answer at all', async () => {
    const folder = randomUUID();
    const holder = await hold(folder);
    holder.kill('SIGSTOP');
    await expect(lockFolder(folder, 500)).rejects.toThrow(
      `a stack is running on ${folder} (it does not answer): stop it, or set SITEWIRE_DATA_DIR to another folder`,
    );
  });
});
