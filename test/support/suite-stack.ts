/** Stacks that live as long as the tests of the file, or of the `describe`, that asks for them. */
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { ControlServer } from './control-server.ts';
import { type StackOptions, TestStack } from './stack.ts';

const FAULTY_WORKER = join(import.meta.dirname, 'workerd', 'faulty-worker.ts');

/** A stack that runs while the tests of its suite run, and that has no fields before. */
export function suiteStack(options: StackOptions = {}): TestStack {
  const stack = new TestStack(options);
  beforeAll(() => stack.begin());
  afterAll(() => stack.stop());
  return stack;
}

/** The same with the faulty Worker, which `control` stops at its steps. */
export function faultyStack(options: StackOptions = {}): { control: ControlServer; stack: TestStack } {
  const control = new ControlServer();
  beforeAll(() => control.start());
  afterAll(() => control.stop());
  const faulty = {
    ...options,
    entry: FAULTY_WORKER,
    // Known when the control server listens.
    get bindings() {
      return control.bindings;
    },
  };
  return { control, stack: suiteStack(faulty) };
}
