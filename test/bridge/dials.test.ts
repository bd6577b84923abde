/** Dials of one address on a whole bridge: so many under way, the others in line, and nobody else behind them. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { VHOST_HEADER } from '../../protocol/link/proof.ts';
import { type Answer, TestEdge, VHOST } from '../support/bridge-edge.ts';
import { turns } from '../support/bridge-signal.ts';
import { ADDRESS, OTHER_ADDRESS, TestCertificates, WholeBridge } from '../support/bridge-whole.ts';

const UNDER_WAY = 8;
const ACCEPTED: Answer = { accept: { [VHOST_HEADER]: VHOST } };

let certificates: TestCertificates;
let edge: TestEdge;
let bridge: WholeBridge;
/** Dials that the edge has not answered, oldest first. */
let unanswered: (() => void)[];

beforeAll(async () => {
  certificates = await TestCertificates.create();
});
beforeEach(async () => {
  edge = await TestEdge.start();
  unanswered = [];
  edge.answer = () =>
    new Promise<Answer>((resolve) => {
      unanswered.push(() => resolve(ACCEPTED));
    });
  bridge = await WholeBridge.start(edge, certificates);
});
afterEach(async () => {
  edge.answer = () => ACCEPTED;
  for (const answer of unanswered.splice(0)) answer();
  await bridge.stop();
  await edge.stop();
});
afterAll(() => certificates.remove());

function dialedFrom(address: string): number {
  return edge.dialed.filter(({ proof }) => proof.address === address).length;
}

/** As many logins as may be under way, of both protocols. */
async function fill(): Promise<void> {
  for (let count = 0; count < UNDER_WAY; count += 2) {
    await bridge.partner();
    await bridge.device();
  }
  await edge.untilDialed(UNDER_WAY);
}

describe('dials of one address', () => {
  it('wait in line, of whatever protocol, and the next goes when one is answered', async () => {
    await fill();
    await bridge.partner();
    await bridge.device();
    // Once more through the bridge: those in line have been read by then.
    await bridge.device({}, OTHER_ADDRESS);
    await edge.untilDialed(UNDER_WAY + 1);
    expect([dialedFrom(ADDRESS), dialedFrom(OTHER_ADDRESS)]).toEqual([UNDER_WAY, 1]);
    for (const dialed of [1, 2]) {
      unanswered.shift()?.();
      await edge.untilDialed(UNDER_WAY + 1 + dialed);
      await turns();
      expect(dialedFrom(ADDRESS)).toBe(UNDER_WAY + dialed);
    }
  });

  it('hold nobody up at another address', async () => {
    await fill();
    await bridge.device();
    const other = await bridge.device({}, OTHER_ADDRESS);
    await edge.untilDialed(UNDER_WAY + 1);
    unanswered[UNDER_WAY]?.();
    expect(await other.takeConnack()).toBe(0);
  });

  it('are not made for a client that left the line', async () => {
    await fill();
    const left = await bridge.partner({ username: 'left' });
    await bridge.partner({ username: 'stayed' });
    await bridge.device({}, OTHER_ADDRESS);
    await edge.untilDialed(UNDER_WAY + 1);
    left.stream.destroy();
    await vi.waitFor(async () =>
      expect(await bridge.metric('refused_clients_total{protocol="amqp",reason="client"}')).toBe(1),
    );
    unanswered.shift()?.();
    await edge.untilDialed(UNDER_WAY + 2);
    expect(edge.dialed.at(-1)?.username).toBe('stayed');
  });
});
