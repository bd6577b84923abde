/** Programs of other languages that tests run, and whether this machine has what they need. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

export const PYTHON = '/usr/bin/python3';
const JARS = ['amqp-client', 'slf4j-api'].map((name) => `/usr/share/java/${name}.jar`);

export function succeeds(command: string, ...given: string[]): boolean {
  return spawnSync(command, given, { stdio: 'ignore' }).status === 0;
}

export function hasPython(module: string): boolean {
  return succeeds(PYTHON, '-c', `import ${module}`);
}

export function hasPrograms(...names: string[]): boolean {
  return names.every((name) => succeeds('sh', '-c', `command -v ${name}`));
}

/** Whether there are RabbitMQ's Java client and a JDK. */
export function hasJava(): boolean {
  return JARS.every((jar) => existsSync(jar)) && succeeds('javac', '-version');
}

export function javaCommand(file: string): [program: string, ...given: string[]] {
  return ['java', '-cp', JARS.join(':'), file];
}

/** Debian's names of the missing ones of these Python modules. */
export function missingPython(packages: Record<string, string>): string[] {
  return Object.keys(packages).flatMap((module) => (hasPython(module) ? [] : [packages[module] ?? '']));
}

/** The end of a title that says what is missing; empty if nothing is. */
export function skippedWithout(missing: readonly string[]): string {
  return missing.length > 0 ? ` (skipped: install ${missing.join(', ')})` : '';
}
