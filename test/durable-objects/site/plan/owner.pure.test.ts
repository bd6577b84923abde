/** The effect of the gateway's ack of a mode change on the site. */
import { describe, expect, it } from 'vitest';
import type { Turn } from '../../../../durable-objects/object/turn.ts';
import type { DispatchRow } from '../../../../durable-objects/site/dispatch/rows.ts';
import { ModeOwner, type ModeOwnerHost } from '../../../../durable-objects/site/plan/mode-owner.ts';
import type { ModeChange } from '../../../../protocol/command.ts';
import type { OperatingMode } from '../../../../protocol/enums.ts';

const NOW_MS = Date.parse('2030-03-05T09:00:00.000Z');
const UNTIL = '2030-03-05T12:00:00+01:00';

describe('an acknowledged mode change', () => {
  function effectOf(payload: ModeChange): unknown[] {
    const calls: unknown[] = [];
    const command = {
      id: 'command-1',
      sequence: 7,
      key_prefix: 'sw_abc',
      command_type: 'MODE_CHANGE',
      status: 'PENDING',
      payload: JSON.stringify(payload),
    };
    const none = () => undefined;
    const host = {
      commands: { find: () => command, rows: { markStarted: none } },
      dispatches: {
        rows: { deleteOfOwner: none, ofOwner: () => [] },
        holdForResult: none,
        sendAllWaiting: none,
      },
      events: { executing: none },
      configuration: {
        setMode: (turn: Turn, mode: OperatingMode) => calls.push(['mode', turn.now, mode]),
        overrideMode: (turn: Turn, override: unknown) => calls.push(['override', turn.now, override]),
      },
      plan: {
        state: {
          emergency: undefined,
          release: none,
          takeMode: (turn: Turn, sequence: number) => calls.push(['plan', turn.now, sequence]),
        },
      },
    } as unknown as ModeOwnerHost;
    const row = { cmd_id: 'cmd-1', command_sequence: 7, state: 'SENT' } as DispatchRow;
    new ModeOwner(host).acked({ now: NOW_MS } as Turn, row, 'RECEIVED');
    return calls;
  }

  it('a mode change without an end sets the operating mode [C-7.7]', () => {
    expect(effectOf({ mode: 'ZERO_EXPORT', reason: 'r' })).toEqual([
      ['mode', NOW_MS, 'ZERO_EXPORT'],
      ['plan', NOW_MS, 7],
    ]);
  });

  it.each([
    ['fair', 'fair'],
    ['', ''],
    [undefined, null],
  ])(
    'a mode change with an end sets an override with its author and reason: %j [C-2.3]',
    (reason, stored) => {
      const payload = {
        mode: 'PEAK_SHAVING' as const,
        validUntil: UNTIL,
        ...(reason === undefined ? {} : { reason }),
      };
      expect(effectOf(payload)).toEqual([
        [
          'override',
          NOW_MS,
          {
            mode: 'PEAK_SHAVING',
            reason: stored,
            validFrom: '2030-03-05T09:00:00.000Z',
            validUntil: UNTIL,
            commandId: 'command-1',
            setBy: 'sw_abc',
          },
        ],
        ['plan', NOW_MS, 7],
      ]);
    },
  );
});
