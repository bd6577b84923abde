/** Whether the edge takes a bridge's proof, and what /readyz says where it does not. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { whyNotReady } from '../../bridge/proof.ts';
import { judgeRefusal } from '../../bridge/refusal.ts';
import { errorBody } from '../../protocol/errors.ts';
import { CLOCK_HEADER } from '../../protocol/link/proof.ts';
import { TestEdge } from '../support/bridge-edge.ts';
import { dialDevice } from '../support/bridge-link.ts';

const NOT_FOUND = JSON.stringify(errorBody('NOT_FOUND', 'not found'));
const SECRET =
  "the edge does not take this bridge's proof: is SITEWIRE_BRIDGE_SECRET one of its BRIDGE_SECRET?";

let edge: TestEdge;
let other: Server | undefined;

beforeAll(async () => {
  edge = await TestEdge.start();
});
afterEach(async () => {
  await new Promise((done) => (other ? other.close(done) : done(undefined)));
  other = undefined;
});
afterAll(() => edge.stop());

/** An edge that answers everything so. */
async function answering(status: number, body: string): Promise<string> {
  other = createServer((_request, response) => response.writeHead(status, { connection: 'close' }).end(body));
  await new Promise<void>((resolve) => other?.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
}

describe('a bridge is ready', () => {
  it('when the edge takes its proof', async () => {
    expect(await whyNotReady(edge.forBridge)).toBeUndefined();
  });

  it('not with a secret that is none of the edge’s', async () => {
    expect(
      await whyNotReady({ ...edge.forBridge, secret: 'another secret of forty characters, wrong' }),
    ).toBe(SECRET);
  });

  it.each([
    ['a proxy’s page', 502, '<html>'],
    ['a page that is not there', 404, '<html>not found</html>'],
    ['another service’s envelope', 404, '{"error":"no such route"}'],
  ])('not with an edge that answers %s', async (_title, status, body) => {
    const url = await answering(status, body);
    expect(await whyNotReady({ ...edge.forBridge, url })).toBe(`the edge answered ${status}`);
  });

  it('not with an edge that nobody answers for', async () => {
    const url = await answering(204, '');
    await new Promise((done) => other?.close(done));
    other = undefined;
    expect(await whyNotReady({ ...edge.forBridge, url })).toMatch(/^the edge is not reached: .*ECONNREFUSED/);
  });
});

describe('a dial with a proof that the edge does not take', () => {
  it('is told apart from a refusal and from an edge that is not reached', async () => {
    const dialed = await dialDevice(edge.url, {
      ...edge.forBridge,
      secret: 'another secret of forty characters, wrong',
    });
    expect(dialed).toEqual({ outcome: 'unproven', reason: SECRET });
  });

  it.each([
    [-90_000, 'ahead of'],
    [3_600_000, 'behind'],
  ])('for its clock (%d ms) says so', (offMs, word) => {
    const headers = { [CLOCK_HEADER]: String(Date.now() + offMs) };
    expect(judgeRefusal({ status: 404, headers, body: NOT_FOUND })).toEqual({
      outcome: 'unproven',
      reason: `this bridge's clock is ${Math.abs(offMs) / 1_000} s ${word} the edge's`,
    });
  });
});
