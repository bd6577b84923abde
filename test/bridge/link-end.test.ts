/** How an object ends a link: its goodbye is enough, whatever becomes of the WebSocket's own close. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { startPulse } from '../../bridge/link.ts';
import { LINK_VERSION } from '../../protocol/link/proof.ts';
import { TestEdge } from '../support/bridge-edge.ts';
import { openLink } from '../support/bridge-link.ts';
import { CLOCK, turns } from '../support/bridge-signal.ts';

const GOODBYE = { kind: 'goodbye', code: 4001, reason: 'taken over' } as const;

let edge: TestEdge;
let stopPulse = () => {};

beforeAll(async () => {
  edge = await TestEdge.start();
});
beforeEach(() => {
  vi.useFakeTimers(CLOCK);
  stopPulse = startPulse();
});
afterEach(() => {
  stopPulse();
  vi.useRealTimers();
  edge.reset();
});
afterAll(() => edge.stop());

describe('a link', () => {
  it('says which version of the frames it speaks', async () => {
    const { link } = await openLink(edge);
    expect(edge.dialed.map(({ link: version }) => version)).toEqual([String(LINK_VERSION)]);
    link.close();
  });

  it('ends with the object’s goodbye: its owner is told, once, and the socket is gone', async () => {
    const { object, heard } = await openLink(edge);
    object.send(GOODBYE);
    object.socket.pause();
    expect(await heard.untilClosed()).toEqual({ code: 4001, reason: 'taken over' });
    object.socket.resume();
    expect((await object.untilClosed()).code).toBe(1006);
    await vi.advanceTimersByTimeAsync(120_000);
    expect(heard.closedTimes).toBe(1);
    expect(object.pings).toBe(0);
  });

  it('hands over what came before a goodbye and nothing that follows it', async () => {
    const { object, heard } = await openLink(edge);
    object.send({ kind: 'command', payload: '1' }, GOODBYE);
    object.send({ kind: 'command', payload: '2' });
    await heard.untilClosed();
    await turns();
    expect(heard.frames).toEqual([{ kind: 'command', payload: '1' }]);
  });

  it('sends nothing more after a goodbye', async () => {
    const { object, heard, link } = await openLink(edge);
    object.send(GOODBYE);
    await heard.untilClosed();
    link.send({ kind: 'publish', seq: link.nextSeq(), topic: 'telemetry', payload: 'late' });
    link.close();
    await object.untilClosed();
    expect(object.received).toEqual([]);
  });
});
