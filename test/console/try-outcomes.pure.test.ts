/** The outcomes that the console causes on the simulated plant are those of docs/simulator.md. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { codeOf, readTable } from '#support/doc-table.ts';
import { BEHAVIOURS, OUTCOMES, payloadAt, TRY_COMMANDS } from '../../console/try-outcomes.ts';
import { BEHAVIOURS as SIMULATED } from '../../tools/simulator/behaviour.ts';

const DOCUMENT = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'simulator.md'), 'utf8');
/** A person sends these; configurations and schedules have screens and routes of their own. */
const FAMILIES = {
  'command.device': 'device',
  'command.site-setpoint': 'site-setpoint',
  'command.mode': 'mode',
  'command.emergency': 'emergency',
};
/** The command of each name in the document: its family and payload; undefined: a person cannot send it. */
const documented = new Map(
  [...DOCUMENT.matchAll(/^# ([\w-]+)\nnpm run sitewire -- send (\S+) '(.+)'$/gm)].map(
    ([, name = '', key, text = '']) => {
      const family = FAMILIES[key as keyof typeof FAMILIES];
      return [name, family && { family, payload: JSON.parse(text) }];
    },
  ),
);

describe('the outcomes of the panel "Try it"', () => {
  it('are the rows of docs/simulator.md that a person can cause', () => {
    const rows = readTable('simulator.md', 'To see X, send Y')
      .map(([sees = '', plant = '', send = '']) => ({
        sees: sees.replaceAll('`', ''),
        behaviour: codeOf(plant)[0],
        send: codeOf(send),
      }))
      .filter(({ send }) => send.every((name) => documented.get(name)));
    expect(rows.length).toBeGreaterThan(10);
    expect(OUTCOMES).toEqual(rows);
  });

  it('send the commands of the document', () => {
    for (const [name, command] of Object.entries(TRY_COMMANDS))
      expect(command, name).toEqual(documented.get(name));
  });

  it('have a behaviour of the simulator', () => {
    expect([...BEHAVIOURS].sort()).toEqual(['off', ...Object.keys(SIMULATED)].sort());
  });

  it('have times that count from when they are sent', () => {
    const payload = { validFrom: 'now', validUntil: 'now+4s', priority: 'NORMAL', kw: 3 };
    expect(payloadAt(payload, Date.parse('2026-01-15T10:00:00.000Z'))).toEqual({
      ...{ validFrom: '2026-01-15T10:00:00.000Z', validUntil: '2026-01-15T10:00:04.000Z' },
      ...{ priority: 'NORMAL', kw: 3 },
    });
  });
});
