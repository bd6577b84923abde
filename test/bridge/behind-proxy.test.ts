/** The bridge behind a proxy: the address in a PROXY header is the client's in proofs, limits and the log [C-3.11, C-4.2]. */
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { LINK_PATHS } from '../../protocol/link/proof.ts';
import { issueCertificate } from '../../worker/lifecycle/device-certificate.ts';
import { envelope, TestEdge } from '../support/bridge-edge.ts';
import { DEVICE_ID } from '../support/bridge-link.ts';
import { Signal } from '../support/bridge-signal.ts';
import { ADDRESS, OTHER_ADDRESS, TestCertificates, WholeBridge } from '../support/bridge-whole.ts';
import { binaryHeader, lineHeader } from '../support/proxy-headers.ts';

const CLIENT = '192.0.2.7';
const PER_MINUTE = 30;

let certificates: TestCertificates;
let edge: TestEdge;
let bridge: WholeBridge;
let logged: Record<string, unknown>[];
const signal = new Signal();

beforeAll(async () => {
  certificates = await TestCertificates.create();
  edge = await TestEdge.start();
});
beforeEach(async () => {
  edge.reset();
  logged = [];
  const write = (line: string) => {
    logged.push(JSON.parse(line));
    signal.changed();
  };
  const changes = { SITEWIRE_PROXIES: `${ADDRESS}/32` };
  bridge = await WholeBridge.start(edge, certificates, changes, pino({ level: 'info' }, { write }));
});
afterEach(() => bridge.stop());
afterAll(async () => {
  await edge.stop();
  certificates.remove();
});

/** A login that is refused: its end. */
async function refusedPartner(client: string, from?: string): Promise<void> {
  bridge.preamble = client === '' ? Buffer.alloc(0) : lineHeader(client);
  const peer = await bridge.partner({}, from);
  await peer.takeConnectionClose();
  peer.stream.destroy();
}

it.each([lineHeader(CLIENT), binaryHeader(CLIENT)])(
  'tells the client’s address to the edge',
  async (header) => {
    bridge.preamble = header;
    await bridge.partner();
    await bridge.device();
    const { certificate, key } = certificates.files.deviceCa;
    const authority = { certificate: readFileSync(certificate, 'utf8'), key: readFileSync(key, 'utf8') };
    const own = await issueCertificate(authority, DEVICE_ID, undefined, Date.now());
    await bridge.certified({ cert: own.certificate, key: own.privateKey });
    await edge.untilDialed(3);
    expect(edge.dialed.map(({ path, proof }) => [path, proof.address])).toEqual([
      [LINK_PATHS.amqp, CLIENT],
      [LINK_PATHS.mqtt, CLIENT],
      [LINK_PATHS.mqtt, CLIENT],
    ]);
  },
);

it('counts refused logins for the client, not for the proxy', async () => {
  edge.answer = () => envelope('UNAUTHORIZED');
  for (let count = 0; count <= PER_MINUTE; count++) await refusedPartner(CLIENT);
  expect(edge.dialed.length).toBe(PER_MINUTE);
  await refusedPartner('192.0.2.8');
  await refusedPartner('', OTHER_ADDRESS);
  expect(edge.dialed.slice(PER_MINUTE).map(({ proof }) => proof.address)).toEqual([
    '192.0.2.8',
    OTHER_ADDRESS,
  ]);
});

it('logs the client’s address, and a proxy’s connection without a header', async () => {
  bridge.preamble = lineHeader(CLIENT);
  const peer = await bridge.partner();
  peer.stream.destroy();
  await signal.until(() => logged.find(({ address }) => address === CLIENT));
  const proxy = connect(bridge.ports.mqtts, ADDRESS);
  proxy.write('\x16\x03\x01');
  const line = await signal.until(() => logged.find((one) => one.proxy !== undefined));
  expect(line).toMatchObject({
    level: 40,
    proxy: ADDRESS,
    why: 'no PROXY header',
    msg: 'connection of a proxy without a good PROXY header',
  });
  proxy.destroy();
});
