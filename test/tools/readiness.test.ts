/** A start waits for a plant that listens and whose readings arrive, whatever the edge answers meanwhile. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { untilOnline } from '../../tools/readiness.ts';

type Answer = { status: number; body: string } | 'none';

const GOOD: Answer = { status: 200, body: '{"payload":{"dataQuality":"GOOD"}}' };
let server: Server | undefined;

afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

/** An edge that gives these answers in turn, and then repeats the last. */
async function edgeThatAnswers(answers: Answer[]): Promise<{ edgeUrl: string; left: Answer[] }> {
  const left = [...answers];
  server = createServer((_request, response) => {
    const answer = left.length > 1 ? left.shift() : left[0];
    if (answer === undefined || answer === 'none') response.destroy();
    else response.writeHead(answer.status).end(answer.body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { edgeUrl: `http://127.0.0.1:${(server.address() as { port: number }).port}`, left };
}

function plantOf(edgeUrl: string) {
  return { edgeUrl, apiKey: 'key', plantId: 'plant', isListening: () => true, reports: true };
}

describe('the readiness of a stack', () => {
  it.each<[string, Answer]>([
    ['503', { status: 503, body: '{"code":"SERVICE_UNAVAILABLE"}' }],
    ['by closing the connection', 'none'],
    ['invalid JSON', { status: 200, body: 'Bad gateway' }],
    ['null', { status: 200, body: 'null' }],
    ['stale values', { status: 200, body: '{"payload":{"dataQuality":"STALE"}}' }],
  ])('is awaited while the edge answers %s', async (_name, answer) => {
    const { edgeUrl, left } = await edgeThatAnswers([answer, answer, GOOD]);
    await untilOnline(plantOf(edgeUrl), () => {});
    expect(left).toEqual([GOOD]);
  });

  it('requires only that the gateway listens, if the gateway sends no readings', async () => {
    const { edgeUrl, left } = await edgeThatAnswers(['none', GOOD]);
    let asked = 0;
    const isListening = () => ++asked === 3;
    await untilOnline({ ...plantOf(edgeUrl), isListening, reports: false }, () => {});
    expect(asked).toBe(3);
    expect(left).toEqual(['none', GOOD]);
  });
});
