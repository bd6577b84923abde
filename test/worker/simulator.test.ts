/** The simulated plant: the console of a development stack drives it, and a deployment has none. */
import { restRequest, send, sendRequest } from '#workerd/rest.ts';
import { describe, expect, it } from '#workerd/worker-test.ts';

const PATH = '/dev/simulator';
const BODY = '{"behaviour":"slow"}';

describe('the path of the simulated plant', () => {
  it('says in a deployment that there is none, and changes nothing', async () => {
    const looked = await send(PATH);
    expect([looked.status, await looked.text()]).toEqual([204, '']);
    for (const method of ['PUT', 'POST', 'DELETE']) {
      const refused = await send(PATH, { method, body: BODY });
      expect(refused.status, method).toBe(404);
      await refused.text();
    }
  });

  it('passes on what the development stack answers', async () => {
    const seen: string[] = [];
    const fetch = async (_url: string, { method = 'GET', body = '' }: { method?: string; body?: string }) => {
      seen.push(`${method} ${body}`);
      return Response.json({ message: 'no such behaviour' }, { status: 400 });
    };
    const SIMULATOR = { fetch } as unknown as Fetcher;
    for (const init of [{}, { method: 'PUT', body: BODY }]) {
      const answer = await sendRequest(restRequest(PATH, init), { SIMULATOR });
      expect([answer.status, await answer.json()]).toEqual([400, { message: 'no such behaviour' }]);
      expect(answer.headers.get('cache-control')).toBe('no-store');
    }
    expect(seen).toEqual(['GET ', `PUT ${BODY}`]);
  });
});
