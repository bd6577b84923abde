/** `npm run simulator -- slow`: how the simulated plant of the running stack behaves from now on; without a word, how it does. */
import { setTimeout as sleep } from 'node:timers/promises';
import { settingOf } from './simulator/behaviour.ts';
import { makeWish } from './simulator/wish.ts';
import { dataFolder, readStack } from './stack-file.ts';

const PATIENCE_MS = 20_000;
const LOOK_MS = 100;

async function change(word: string): Promise<void> {
  const wished = settingOf('the simulated plant', word);
  makeWish(dataFolder(), wished);
  const giveUpAt = performance.now() + PATIENCE_MS;
  while (readStack().simulator !== wished) {
    if (performance.now() > giveUpAt) throw new Error(`it is not ${word} yet: see what the stack says`);
    await sleep(LOOK_MS);
  }
}

try {
  const [word, ...rest] = process.argv.slice(2);
  if (rest.length > 0) throw new Error('npm run simulator -- <one word>');
  const before = readStack().simulator;
  if (word !== undefined) await change(word);
  console.log(`the simulated plant is ${word ?? before}${word === undefined ? '' : `, it was ${before}`}`);
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
