/**
 * Reads answers.txt, RabbitMQ's answers to the transcripts: a title after `## `, then one line for each
 * frame.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const FILE = join(import.meta.dirname, 'answers.txt');
const HEAD = `What RabbitMQ 3.10.8 answers to the transcripts of this folder, frame by frame; written by
\`npm run sitewire -- conformance --record\`, never by hand. The last line says how the connection stands: open, ended by
the server, or silent.
`;

export type Answers = Map<string, string[]>;

export function readAnswers(): Answers {
  const [, ...blocks] = readFileSync(FILE, 'utf8').split(/^## /m);
  return new Map(
    blocks.map((block) => {
      const [title = '', ...lines] = block.trimEnd().split('\n');
      return [title, lines];
    }),
  );
}

export function writeAnswers(answers: Answers): void {
  const blocks = [...answers].map(([title, lines]) => `## ${title}\n${lines.join('\n')}\n`);
  writeFileSync(FILE, [HEAD, ...blocks].join('\n'));
}
