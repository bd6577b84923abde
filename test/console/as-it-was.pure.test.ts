/** What the page of a site says of the commands and alerts of an earlier moment. */
import { describe, expect, it } from 'vitest';
import { alertStatusAt, commandAt } from '../../console/api/as-it-was.ts';
import type { Alert, Command } from '../../console/api/types.ts';

const at = (second: number) => new Date(Date.UTC(2026, 0, 15, 10, 0, second)).toISOString();
const msOf = (second: number) => Date.parse(at(second));

describe('a command', () => {
  const ended = {
    ...{ status: 'DEVIATED', createdAt: at(0), startedAt: at(2), finishedAt: at(8) },
    ...{ message: 'queued', reason: 'SETPOINT_DEVIATION', actualValueKw: 12, deviationKw: 8 },
  } as Command;

  it('has its end only from its end on', () => {
    expect(commandAt(ended, msOf(1))).toMatchObject({ status: 'PENDING', message: 'queued' });
    expect(commandAt(ended, msOf(2)).status).toBe('EXECUTING');
    for (const early of [msOf(1), msOf(2), msOf(8) - 1]) {
      const then = commandAt(ended, early);
      expect([then.reason, then.actualValueKw, then.deviationKw, then.finishedAt]).toEqual([
        ...[undefined, undefined, undefined, undefined],
      ]);
    }
    expect(commandAt(ended, msOf(8))).toEqual(ended);
  });

  it('was rejected from the beginning if it was rejected', () => {
    const rejected = { status: 'REJECTED', createdAt: at(0), rejectionCode: 'INVALID_COMMAND' } as Command;
    expect(commandAt(rejected, msOf(0))).toEqual(rejected);
  });
});

it('an alert is acknowledged only from its acknowledgement on', () => {
  const alert = { status: 'RESOLVED', acknowledgedAt: at(5), resolvedAt: at(9) } as Alert;
  expect([4, 5, 8].map((second) => alertStatusAt(alert, msOf(second)))).toEqual([
    ...['ACTIVE', 'ACKNOWLEDGED', 'ACKNOWLEDGED'],
  ]);
  expect(alertStatusAt({ ...alert, acknowledgedAt: null }, msOf(8))).toBe('ACTIVE');
});
