/** The log of a bridge in a test: each line as it was written, held against the list of what lines there are. */
import { type Logger, pino } from 'pino';
import { LINES, type Message } from '../../bridge/log.ts';
import { Signal } from './bridge-signal.ts';

export type LoggedLine = { msg: Message; level: number; [field: string]: unknown };

/** What pino adds to every line. */
const OF_EACH = ['msg', 'level', 'time', 'pid', 'hostname'];

export class BridgeLines {
  readonly all: LoggedLine[] = [];
  readonly log: Logger;
  /** All that was written, to the letter. */
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

  /** The line of that message and number, from 1, now or when it comes. */
  until(message: Message, number = 1): Promise<LoggedLine> {
    return this.#signal.until(() => this.of(message)[number - 1]);
  }
}
