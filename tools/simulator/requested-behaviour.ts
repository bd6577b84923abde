/** Requested simulator behaviour: a one-word file in the data folder that the running stack reads and deletes. */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type SimulatorSetting, settingOf } from './behaviour.ts';

const requestFile = (folder: string) => join(folder, 'simulator');

export function requestBehaviour(folder: string, setting: SimulatorSetting): void {
  writeFileSync(`${requestFile(folder)}.new`, setting);
  renameSync(`${requestFile(folder)}.new`, requestFile(folder));
}

/** Reads and deletes the request; returns undefined if there is none or if it is invalid. */
export function takeRequest(folder: string): SimulatorSetting | undefined {
  const file = requestFile(folder);
  if (!existsSync(file)) return undefined;
  try {
    const text = readFileSync(file, 'utf8').trim();
    rmSync(file);
    return settingOf(file, text);
  } catch (error) {
    console.error(`behaviour of the simulated plant not changed: ${(error as Error).message}`);
    return undefined;
  }
}
