/**
 * Runs a simulated week: the whole stack and its plant use a simulated wall clock, which the plant moves
 * (`clock.c`). The product's code is not changed: it reads the time of day as usual.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ANY_PORT } from '../ports.ts';

const PYTHON = '/usr/bin/python3';
const START_TIMEOUT_MS = 60_000;
const PAUSE_MS = 50;
/**
 * The stack starts this long before the first message, so that everything that seeding creates is older than
 * it.
 */
const LEAD_MS = 30 * 60_000;
const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

export interface WeekSpan {
  /** Epoch milliseconds, a whole minute. */
  startMs: number;
  hours: number;
  seed: number;
  /** Number of metrics that the platform does not know. */
  others: number;
}

/** What this machine lacks: Debian packages, or Linux itself. */
export function missingForWeek(): string[] {
  const has = (command: string, ...given: string[]) =>
    spawnSync(command, given, { stdio: 'ignore' }).status === 0;
  const missing = process.platform === 'linux' ? [] : ['Linux'];
  if (!has('cc', '--version')) missing.push('gcc');
  if (!has(PYTHON, '--version')) missing.push('python3');
  else if (!has(PYTHON, '-c', 'import paho.mqtt.client')) missing.push('python3-paho-mqtt');
  return missing;
}

/**
 * Runs everything in an empty folder. `say` gets the plant's output and the stack's errors. Resolves to the
 * exit code.
 */
export async function runWeek(folder: string, span: WeekSpan, say: (text: string) => void): Promise<number> {
  const env = { ...ANY_PORT, ...process.env, ...setClock(folder, span.startMs - LEAD_MS) };
  const stack = follow(
    [process.execPath, join(import.meta.dirname, '..', 'dev.ts')],
    { ...env, SITEWIRE_DATA_DIR: folder, SITEWIRE_SIMULATOR: 'off' },
    (text, isTrouble) => isTrouble && say(text),
  );
  let plant: ChildProcess | undefined;
  const stop = () => (plant ?? stack).kill('SIGTERM');
  for (const signal of SIGNALS) process.on(signal, stop);
  try {
    const stackFile = join(folder, 'stack.json');
    await untilThere(stackFile, stack);
    const given = [span.startMs, span.hours, span.seed, span.others].map(String);
    const script = join(import.meta.dirname, 'week.py');
    plant = follow(
      [PYTHON, script, stackFile, env.SITEWIRE_WEEK_CLOCK, ...given],
      { ...env, PYTHONDONTWRITEBYTECODE: '1' },
      say,
    );
    const [code] = (await once(plant, 'close')) as [number | null];
    return code ?? 1;
  } finally {
    for (const signal of SIGNALS) process.off(signal, stop);
    if (stack.exitCode === null) {
      stack.kill('SIGTERM');
      await once(stack, 'exit');
    }
  }
}

/** Builds the clock and returns the environment that loads it into a process. */
function setClock(folder: string, startMs: number): { LD_PRELOAD: string; SITEWIRE_WEEK_CLOCK: string } {
  const library = join(folder, 'clock.so');
  const source = join(import.meta.dirname, 'clock.c');
  const built = spawnSync('cc', ['-O2', '-shared', '-fPIC', '-o', library, source], { encoding: 'utf8' });
  if (built.status !== 0) throw new Error(`clock.c does not compile: ${built.stderr}`);
  const ahead = Buffer.alloc(8);
  ahead.writeBigInt64LE(BigInt(startMs - Date.now()) * 1_000_000n);
  const clock = join(folder, 'clock');
  writeFileSync(clock, ahead);
  return { LD_PRELOAD: library, SITEWIRE_WEEK_CLOCK: clock };
}

function follow(
  [command = '', ...given]: string[],
  env: NodeJS.ProcessEnv,
  say: (text: string, isTrouble: boolean) => void,
): ChildProcess {
  // Signals of the terminal go only to this process, which stops the plant and then the stack.
  const child = spawn(command, given, { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  child.stdout.on('data', (part: Buffer) => say(part.toString(), false));
  child.stderr.on('data', (part: Buffer) => say(part.toString(), true));
  return child;
}

async function untilThere(stackFile: string, stack: ChildProcess): Promise<void> {
  const giveUpAt = performance.now() + START_TIMEOUT_MS;
  while (!existsSync(stackFile)) {
    if (stack.exitCode !== null || performance.now() > giveUpAt) throw new Error('the stack did not start');
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}
