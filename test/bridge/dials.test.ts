/** Dials of one address on a whole bridge: some run, the others wait and do not delay other addresses. */
import { describe, expect, vi } from 'vitest';
import { type Answer, VHOST } from '#support/bridge-edge.ts';
import { turns } from '#support/bridge-signal.ts';
import { ADDRESS, bridgeTest, OTHER_ADDRESS } from '#support/bridge-whole.ts';
import { VHOST_HEADER } from '../../protocol/link/proof.ts';

const RUNNING = 8;
const ACCEPTED: Answer = { accept: { [VHOST_HEADER]: VHOST } };

/** `unanswered` has the dials without an answer, oldest first: at the beginning all that may run at once. */
const it = bridgeTest.extend('unanswered', async ({ edge, bridge }, { onCleanup }) => {
  const unanswered: (() => void)[] = [];
  onCleanup(() => {
    edge.answer = () => ACCEPTED;
    for (const answer of unanswered) answer();
  });
  edge.answer = () =>
    new Promise<Answer>((resolve) => {
      unanswered.push(() => resolve(ACCEPTED));
    });
  for (let count = 0; count < RUNNING; count += 2) {
    await bridge.partner();
    await bridge.device();
  }
  await edge.untilDialed(RUNNING);
  return unanswered;
});

describe('dials of one address', () => {
  it('AMQP and MQTT clients share the running dials and one queue', async ({ edge, bridge, unanswered }) => {
    const dialedFrom = (address: string) =>
      edge.dialed.filter(({ proof }) => proof.address === address).length;
    await bridge.partner();
    await bridge.device();
    // When this dial arrives, the bridge has read the waiting ones.
    await bridge.device({}, OTHER_ADDRESS);
    await edge.untilDialed(RUNNING + 1);
    expect([dialedFrom(ADDRESS), dialedFrom(OTHER_ADDRESS)]).toEqual([RUNNING, 1]);
    for (const dialed of [1, 2]) {
      unanswered.shift()?.();
      await edge.untilDialed(RUNNING + 1 + dialed);
      await turns();
      expect(dialedFrom(ADDRESS)).toBe(RUNNING + dialed);
    }
  });

  it('waiting dials do not delay another address', async ({ edge, bridge, unanswered }) => {
    await bridge.device();
    const other = await bridge.device({}, OTHER_ADDRESS);
    await edge.untilDialed(RUNNING + 1);
    unanswered[RUNNING]?.();
    expect(await other.takeConnack()).toBe(0);
  });

  it('a client that disconnects while it waits is not dialed', async ({ edge, bridge, unanswered }) => {
    const left = await bridge.partner({ username: 'left' });
    await bridge.partner({ username: 'stayed' });
    await bridge.device({}, OTHER_ADDRESS);
    await edge.untilDialed(RUNNING + 1);
    left.stream.destroy();
    await vi.waitFor(async () =>
      expect(await bridge.metric('refused_clients_total{protocol="amqp",reason="client"}')).toBe(1),
    );
    unanswered.shift()?.();
    await edge.untilDialed(RUNNING + 2);
    expect(edge.dialed.at(-1)?.username).toBe('stayed');
  });
});
