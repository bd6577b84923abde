/** A goodbye of the object ends a link, even if the close of the WebSocket never arrives. */
import { describe, expect } from 'vitest';
import { turns } from '#support/bridge-signal.ts';
import { linkTest as it } from '#support/bridge-test.ts';
import { LINK_VERSION } from '../../protocol/link/proof.ts';

const GOODBYE = { kind: 'goodbye', code: 4001, reason: 'taken over' } as const;

describe('a link', () => {
  it('announces its version in its dial', async ({ edge, open: _open }) => {
    expect(edge.dialed.map(({ link: version }) => version)).toEqual([String(LINK_VERSION)]);
  });

  it('reports a goodbye once to its owner and drops the socket', async ({ clock, object, owner }) => {
    object.sayGoodbye(4001, 'taken over');
    expect(await owner.untilClosed()).toEqual({ code: 4001, reason: 'taken over' });
    expect(await object.closeCode()).toBe(1006);
    await clock.pass(120_000);
    expect(owner.closedTimes).toBe(1);
    expect(object.pings).toBe(0);
  });

  it('delivers the object’s frames before a goodbye, not those after it', async ({ object, owner }) => {
    object.send({ kind: 'command', payload: '1' }, GOODBYE);
    object.send({ kind: 'command', payload: '2' });
    await owner.untilClosed();
    await turns();
    expect(owner.frames).toEqual([{ kind: 'command', payload: '1' }]);
  });

  it('sends nothing after a goodbye of the object', async ({ link, object, owner }) => {
    object.send(GOODBYE);
    await owner.untilClosed();
    link.send({ kind: 'publish', seq: link.nextSeq(), topic: 'telemetry', payload: 'late' });
    link.close();
    await object.untilClosed();
    expect(object.received).toEqual([]);
  });
});
