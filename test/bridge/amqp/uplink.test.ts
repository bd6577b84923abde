/** The uplink of a connection: acknowledgements of a whole backlog are split into frames that fit a link. */
import { expect, it } from 'vitest';
import { Uplink } from '../../../bridge/amqp/uplink.ts';
import type { VhostLinkUp } from '../../../protocol/link/vhost.ts';

const LEASES = 200_000;

it('an acknowledgement of 200 000 leases is sent in frames that name each lease once, in order [C-6.4]', () => {
  const sent: VhostLinkUp[] = [];
  const link = {
    nextSeq: () => 1,
    send: (frame: VhostLinkUp) => sent.push(frame),
    close: () => {},
  };
  const uplink = new Uplink(link, () => {}, { answered: () => {} });
  const leases = Array.from({ length: LEASES }, (_none, index) => index);
  uplink.settle('ack', leases);
  uplink.flush();
  const settled = sent.flatMap((frame) => (frame.kind === 'settle' ? frame.leases : []));
  expect(sent.length).toBeGreaterThan(1);
  expect(settled).toEqual(leases);
});
