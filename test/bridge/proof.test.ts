/** The bridge proof: when the edge accepts it, and what /readyz reports if not. */
import { createServer } from 'node:http';
import { describe, expect } from 'vitest';
import { dialDevice } from '#support/bridge-link.ts';
import { edgeTest as it } from '#support/bridge-test.ts';
import { whyNotReady } from '../../bridge/proof.ts';
import { judgeRefusal } from '../../bridge/refusal.ts';
import { errorBody } from '../../protocol/errors.ts';
import { CLOCK_HEADER } from '../../protocol/link/proof.ts';
import { freePort } from '../../tools/ports.ts';

const NOT_FOUND = JSON.stringify(errorBody('NOT_FOUND', 'not found'));
const SECRET =
  "the edge rejected the bridge proof: SITEWIRE_BRIDGE_SECRET must be one of the edge's BRIDGE_SECRET values";

const WRONG = 'another secret of forty characters, wrong';

describe('the readiness of a bridge', () => {
  it('a bridge is ready when the edge accepts its proof', async ({ edge }) => {
    expect(await whyNotReady(edge.forBridge)).toBeUndefined();
  });

  it('a bridge with a secret that the edge does not know is not ready, and knows why', async ({ edge }) => {
    expect(await whyNotReady({ ...edge.forBridge, secret: WRONG })).toBe(SECRET);
  });

  it.for([
    ['a proxy’s page', 502, '<html>'],
    ['a 404 page', 404, '<html>not found</html>'],
    ['another service’s envelope', 404, '{"error":"no such route"}'],
  ] as const)(
    'a bridge is not ready when the edge answers with %s',
    async ([_, status, body], { edge, serve }) => {
      const port = await serve(createServer((_request, response) => response.writeHead(status).end(body)));
      const url = `http://127.0.0.1:${port}`;
      expect(await whyNotReady({ ...edge.forBridge, url })).toBe(`the edge answered ${status}`);
    },
  );

  it('a bridge is not ready when the edge is not running', async ({ edge }) => {
    const url = `http://127.0.0.1:${await freePort()}`;
    expect(await whyNotReady({ ...edge.forBridge, url })).toMatch(
      /^the edge cannot be reached: .*ECONNREFUSED/,
    );
  });
});

describe('a dial with an invalid proof', () => {
  it('is unproven: neither a rejection nor a failure', async ({ edge }) => {
    const dialed = await dialDevice(edge.url, { ...edge.forBridge, secret: WRONG });
    expect(dialed).toEqual({ outcome: 'unproven', reason: SECRET });
  });

  it.each([
    [-90_000, 'ahead of'],
    [3_600_000, 'behind'],
  ])('reports the difference if the edge’s clock differs by %d ms', (offMs, word) => {
    const headers = { [CLOCK_HEADER]: String(Date.now() + offMs) };
    expect(judgeRefusal({ status: 404, headers, body: NOT_FOUND })).toEqual({
      outcome: 'unproven',
      reason: `this bridge's clock is ${Math.abs(offMs) / 1_000} s ${word} the edge's`,
    });
  });
});
