/**
 * `npm run sitewire -- simulate slow` changes how the simulated plant of the running stack behaves. Without an
 * argument it prints the current behaviour.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { showHelp } from './show-help.ts';
import { BEHAVIOURS, settingOf } from './simulator/behaviour.ts';
import { requestBehaviour } from './simulator/requested-behaviour.ts';
import { dataFolder, readStack } from './stack-file.ts';

const USAGE = `npm run sitewire -- simulate [<behaviour>]: prints how the simulated plant behaves, or changes it
  behaviours: ${Object.keys(BEHAVIOURS).join(', ')}`;
showHelp(USAGE);

const PATIENCE_MS = 20_000;
const LOOK_MS = 100;

async function change(word: string): Promise<void> {
  const requested = settingOf('the behaviour', word);
  requestBehaviour(dataFolder(), requested);
  const giveUpAt = performance.now() + PATIENCE_MS;
  while (readStack().simulator !== requested) {
    if (performance.now() > giveUpAt)
      throw new Error(`the simulated plant is not "${word}" yet: check the output of the stack`);
    await sleep(LOOK_MS);
  }
}

try {
  const [word, ...rest] = process.argv.slice(2);
  if (rest.length > 0) throw new Error(USAGE);
  const before = readStack().simulator;
  if (word !== undefined) await change(word);
  console.log(
    word === undefined ? `Simulator is ${before}.` : `Simulator switched from ${before} to ${word}.`,
  );
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
