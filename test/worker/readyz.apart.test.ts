/** GET /readyz: whether the edge can read its database. */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { restRequest, sendRequest } from '#workerd/rest.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';

const ask = () => sendRequest(restRequest('/readyz'));

let seconds = 0;

/** Moves the clock on, each time further than before, so that the isolate reads the database again. */
function nextRead(): void {
  vi.useFakeTimers({ toFake: ['Date'] });
  seconds += 10;
  vi.setSystemTime(Date.now() + seconds * 1_000);
}

describe('GET /readyz', () => {
  it('answers 200 when the database can be read, and reads it at most once in a second', async () => {
    nextRead();
    const prepare = vi.spyOn(env.DB, 'prepare');
    for (let count = 0; count < 5; count++) {
      const response = await ask();
      expect([response.status, await response.json()]).toEqual([200, { status: 'ok' }]);
    }
    expect(prepare).toHaveBeenCalledTimes(1);
  });

  it('answers 503 with Retry-After and a log line when the database cannot be read, and 200 once it can again', async () => {
    nextRead();
    const error = vi.spyOn(console, 'error').mockReturnValue(undefined);
    const broken = vi.spyOn(env.DB, 'prepare').mockImplementation(() => {
      throw new Error('D1 is away');
    });
    const refused = await ask();
    expect(refused.headers.get('retry-after')).toBe('1');
    await expectError(refused, 503, 'SERVICE_UNAVAILABLE');
    expect(JSON.stringify(error.mock.calls)).toContain('the database cannot be read');
    broken.mockRestore();
    vi.setSystemTime(Date.now() + 1_000);
    expect((await ask()).status).toBe(200);
  });
});
