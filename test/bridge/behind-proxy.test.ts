import { connect } from 'node:net';
import { expect } from 'vitest';
import { envelope } from '#support/bridge-edge.ts';
import { ADDRESS, bridgeTest, OTHER_ADDRESS } from '#support/bridge-whole.ts';
import { binaryHeader, lineHeader } from '#support/proxy-headers.ts';
import { LINK_PATHS } from '../../protocol/link/proof.ts';

const CLIENT = '192.0.2.7';
const PER_MINUTE = 30;

const it = bridgeTest.extend('environment', () => ({ SITEWIRE_PROXIES: `${ADDRESS}/32` }));

it.for([lineHeader(CLIENT), binaryHeader(CLIENT)])(
  'the edge receives the client’s address from the PROXY header, not the proxy’s address',
  async (header, { certificates, edge, bridge }) => {
    bridge.preamble = header;
    await bridge.partner();
    await bridge.device();
    await bridge.certified(await certificates.device());
    await edge.untilDialed(3);
    expect(edge.dialed.map(({ path, proof }) => [path, proof.address])).toEqual([
      [LINK_PATHS.amqp, CLIENT],
      [LINK_PATHS.mqtt, CLIENT],
      [LINK_PATHS.mqtt, CLIENT],
    ]);
  },
);

it('rejected logins count for the client’s address, not for the proxy’s', async ({ edge, bridge }) => {
  const reject = (client: string, from?: string) => {
    bridge.preamble = client === '' ? Buffer.alloc(0) : lineHeader(client);
    return bridge.rejectedPartner({}, from);
  };
  edge.answer = () => envelope('UNAUTHORIZED');
  for (let count = 0; count <= PER_MINUTE; count++) await reject(CLIENT);
  expect(edge.dialed.length).toBe(PER_MINUTE);
  await reject('192.0.2.8');
  await reject('', OTHER_ADDRESS);
  expect(edge.dialed.slice(PER_MINUTE).map(({ proof }) => proof.address)).toEqual([
    '192.0.2.8',
    OTHER_ADDRESS,
  ]);
});

it('the log has the client’s address, and reports a missing PROXY header', async ({ bridge, lines }) => {
  bridge.preamble = lineHeader(CLIENT);
  const peer = await bridge.partner();
  peer.stream.destroy();
  await lines.expect('client not connected', { address: CLIENT });
  const proxy = connect(bridge.ports.mqtts, ADDRESS);
  proxy.write('\x16\x03\x01');
  await lines.expect('proxy connection without a valid PROXY header', {
    level: 40,
    proxy: ADDRESS,
    why: 'no PROXY header',
  });
  proxy.destroy();
});
