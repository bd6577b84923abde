/** How somebody wishes that the simulated plant of a running stack behaves: a word in its folder, which the stack takes away. */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type SimulatorSetting, settingOf } from './behaviour.ts';

const wishFile = (folder: string) => join(folder, 'simulator');

export function makeWish(folder: string, setting: SimulatorSetting): void {
  writeFileSync(`${wishFile(folder)}.new`, setting);
  renameSync(`${wishFile(folder)}.new`, wishFile(folder));
}

/** Undefined: there is none, or none that means something. */
export function takeWish(folder: string): SimulatorSetting | undefined {
  const file = wishFile(folder);
  if (!existsSync(file)) return undefined;
  try {
    const text = readFileSync(file, 'utf8').trim();
    rmSync(file);
    return settingOf(file, text);
  } catch (error) {
    console.error(`the simulated plant stays as it is: ${(error as Error).message}`);
    return undefined;
  }
}
