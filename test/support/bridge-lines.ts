/** The log of a bridge in a test. A field that is not in the bridge's list of lines fails the test. */
import { type Logger, pino } from 'pino';
import { expect } from 'vitest';
import { LINES, type Message } from '../../bridge/log.ts';
import { Signal } from './bridge-signal.ts';

export type LoggedLine = { msg: Message; level: number; [field: string]: unknown };

/** Fields that pino adds to every line. */
const OF_EACH = ['msg', 'level', 'time', 'pid', 'hostname'];

export class BridgeLines {
  readonly all: LoggedLine[] = [];
  readonly log: Logger;
  /** The whole log as text. */
  text = '';
  readonly #signal = new Signal();

  constructor(level = 'debug') {
    const write = (text: string) => {
      this.text += text;
      const line = JSON.parse(text) as LoggedLine;
      const known: readonly string[] = LINES[line.msg]?.fields ?? [];
      const strange = Object.keys(line).filter((name) => !known.includes(name) && !OF_EACH.includes(name));
      if (strange.length > 0) throw new Error(`a line '${line.msg}' with ${strange}`);
      this.all.push(line);
      this.#signal.changed();
    };
    this.log = pino({ level }, { write });
  }

  of(message: Message): LoggedLine[] {
    return this.all.filter(({ msg }) => msg === message);
  }

  /** Resolves with the nth line of that message, counted from 1. */
  until(message: Message, number = 1): Promise<LoggedLine> {
    return this.#signal.until(() => this.of(message)[number - 1]);
  }

  /** Waits for the nth line of that message, counted from 1, and checks these fields of it. */
  async expect(message: Message, fields: object, number = 1): Promise<void> {
    expect(await this.until(message, number)).toMatchObject(fields);
  }
}
