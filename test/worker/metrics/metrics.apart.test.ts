/** `GET /metrics`: who may read the metrics of the edge, what they contain, and what the Worker counts. */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { parseExposition } from '#support/exposition.ts';
import { deviceToken } from '#workerd/device-tokens.ts';
import { basic, dialAmqp, dialMqtt } from '#workerd/door.ts';
import { messageOf } from '#workerd/links.ts';
import { restRequest, send, sendRequest } from '#workerd/rest.ts';
import { setScene } from '#workerd/scene.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import documented from '../../../docs/monitoring.md?raw';
import { Metrics } from '../../../durable-objects/metrics.ts';

const OLD = 'an-old-token-of-the-scraper-32-characters';
const NEW = 'a-new-token-of-the-scraper-32-characters-';

function ask(authorization: string | undefined, METRICS_TOKEN: string | undefined = `${NEW}, ${OLD} `) {
  const headers = authorization === undefined ? {} : { authorization };
  return sendRequest(restRequest('/metrics', { headers }), { METRICS_TOKEN } as { METRICS_TOKEN: string });
}

async function read() {
  const response = await ask(`Bearer ${NEW}`);
  expect(response.status).toBe(200);
  return parseExposition(await response.text());
}

async function figure(name: string, labels: Record<string, string>): Promise<number> {
  const samples = (await read()).get(`sitewire_edge_${name}`)?.samples ?? [];
  const found = samples.find((sample) => JSON.stringify(sample.labels) === JSON.stringify(labels));
  if (!found) throw new Error(`no sample of ${name}`);
  return found.value;
}

describe('who may read the metrics', () => {
  it.each([
    ['no token', undefined],
    ['another token', `Bearer ${NEW}x`],
    ['the beginning of a valid token', `Bearer ${NEW.slice(0, -1)}`],
    ['both valid tokens in one header', `Bearer ${NEW}, ${OLD}`],
    ['an empty token', 'Bearer '],
    ['a valid token as the password of Basic', basic('prometheus', NEW)],
    ['a valid token without the word Bearer', NEW],
  ])('a request with %s gets 401 in the error envelope', async (_what, authorization) => {
    const response = await ask(authorization);
    expect(response.headers.get('www-authenticate')).toBe('Bearer');
    await expectError(response, 401, 'UNAUTHORIZED');
  });

  it('the old and the new token both work until the old one is removed', async () => {
    for (const token of [OLD, NEW]) {
      const response = await ask(`Bearer ${token}`);
      expect([response.status, response.headers.get('content-type')]).toEqual([
        200,
        'text/plain; version=0.0.4; charset=utf-8',
      ]);
      expect(response.headers.get('cache-control')).toBe('no-store');
      await response.text();
    }
    await expectError(await ask(`Bearer ${OLD}`, NEW), 401, 'UNAUTHORIZED');
  });

  it('a POST gets 404, even with a valid token', async () => {
    const headers = { authorization: `Bearer ${NEW}`, 'content-type': 'application/json' };
    const request = restRequest('/metrics', { method: 'POST', headers, body: '{}' });
    await expectError(await sendRequest(request, { METRICS_TOKEN: NEW }), 404, 'NOT_FOUND');
  });

  it.each(['', ' ', undefined])(
    'GET /metrics gets the 404 of an unknown path if METRICS_TOKEN is %j',
    async (setting) => {
      const unknown = await expectError(await send('/no-such-path'), 404, 'NOT_FOUND');
      const request = restRequest('/metrics', { headers: { authorization: 'Bearer ' } });
      const response = await sendRequest(request, { METRICS_TOKEN: setting } as { METRICS_TOKEN: string });
      expect(await expectError(response, 404, 'NOT_FOUND')).toEqual(unknown);
    },
  );

  it('a request gets 500 if one token of METRICS_TOKEN is too short; the log says so and shows no token', async () => {
    const error = vi.spyOn(console, 'error').mockReturnValue(undefined);
    await expectError(await ask(`Bearer ${NEW}`, `${NEW},t00-short`), 500, 'INTERNAL_SERVER_ERROR');
    const stack = expect.stringContaining('METRICS_TOKEN must have at least 32 characters');
    expect(error.mock.calls).toEqual([
      [
        'request failed because of an unexpected error, the client gets 500',
        { requestId: expect.any(String), method: 'GET', path: '/metrics', stack },
      ],
    ]);
    for (const token of [NEW, 't00-short']) expect(JSON.stringify(error.mock.calls)).not.toContain(token);
  });

  it('the metrics show the id of the Worker’s version where the platform reports it', async () => {
    const response = await sendRequest(
      restRequest('/metrics', { headers: { authorization: `Bearer ${NEW}` } }),
      {
        METRICS_TOKEN: NEW,
        VERSION: { id: 'v-7' },
      },
    );
    expect(await response.text()).toContain('sitewire_edge_build_info{version="v-7"} 1\n');
  });
});

describe('what the Worker counts', () => {
  it('the Worker counts the answers of REST by status code, and not those of /healthz', async ({ key }) => {
    const codes = () =>
      Promise.all(['200', '401', '404'].map((code) => figure('http_answers_total', { code })));
    const before = await codes();
    for (let time = 0; time < 3; time++) await key.call('/vcp/sites');
    await send('/api/v1/vcp/sites');
    await key.call('/vcp/no-such');
    await send('/healthz');
    const [good = 0, refused = 0, unknown = 0] = before;
    expect(await codes()).toEqual([good + 3, refused + 1, unknown + 1]);
  });

  it('refused dials are counted by reason; accepted dials and dials without a bridge proof are not', async ({
    organization,
    plant,
    newKey,
    key,
  }) => {
    const { gateway } = plant;
    const scopeless = await newKey({ scopes: ['plants:read'] });
    const elsewhere = await newKey({ allowedIps: ['198.51.100.1'] });
    const dials: [client: string, reason: string, dial: () => Promise<Response>][] = [
      ['partner', 'bad key', () => dialAmqp(organization, { key: `${key.key}x` })],
      ['partner', 'missing scope', () => dialAmqp(organization, scopeless)],
      ['partner', 'address', () => dialAmqp(organization, elsewhere)],
      ['device', 'bad credential', () => dialMqtt(gateway.id, 'no token')],
    ];
    for (const [client, reason, dial] of dials) {
      const before = await figure('refused_dials_total', { client, reason });
      expect([reason, (await dial()).status]).toEqual([reason, expect.toSatisfy((status) => status >= 400)]);
      expect([reason, await figure('refused_dials_total', { client, reason })]).toEqual([reason, before + 1]);
    }
    // Accepted dials and dials without a proof do not count.
    const all = async () =>
      ((await read()).get('sitewire_edge_refused_dials_total')?.samples ?? []).map(({ value }) => value);
    const before = await all();
    expect((await dialMqtt(gateway.id, await deviceToken(gateway.id))).status).toBe(101);
    expect((await dialAmqp(organization, key, { tamper: () => undefined })).status).toBe(404);
    expect(await all()).toEqual(before);
  });

  it('a dry run counts as one, not as a command; the command itself counts as an acknowledgement', async ({
    organization,
  }) => {
    const { plant, key } = await setScene({ organization, plant: true, key: true });
    const path = `/vcp/sites/${plant.id}/commands`;
    const publish = messageOf(organization, key, plant.id, 'mode', { mode: 'STANDARD' });
    const counts = () =>
      Promise.all([
        figure('dry_runs_total', { status: 'QUEUED' }),
        figure('command_acknowledgements_total', { status: 'QUEUED', code: '' }),
      ]);
    const [dryRuns = 0, acknowledgements = 0] = await counts();
    for (let time = 0; time < 3; time++)
      expect((await key.post(`${path}/dry-run`, publish)).status).toBe(200);
    expect((await key.post(path, publish)).status).toBe(200);
    // The site reports by itself, after the command: what it had counted before would be in the same report.
    await vi.waitFor(async () => expect(await counts()).toEqual([dryRuns + 3, acknowledgements + 1]));
  });

  it('counts that the metrics object did not store are reported to it again, and counted once', async () => {
    const before = await figure('http_answers_total', { code: '404' });
    const warn = vi.spyOn(console, 'warn').mockReturnValue(undefined);
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    const add = vi.spyOn(Metrics.prototype, 'add').mockImplementation(() => {
      throw new Error('no room');
    });
    await send('/api/v1/no-such');
    expect((await ask(`Bearer ${NEW}`)).status).toBe(200);
    expect(warn).toHaveBeenCalled();
    add.mockRestore();
    expect(await figure('http_answers_total', { code: '404' })).toBe(before + 1);
  });

  it('an unresponsive metrics object delays no answer', async () => {
    const never = { add: () => new Promise(() => {}) };
    const METRICS = { idFromName: () => ({}), get: () => never } as unknown as typeof env.METRICS;
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 60_000 });
    const { default: worker } = await import('../../../worker/index.ts');
    const waits: Promise<unknown>[] = [];
    const context = {
      waitUntil: (work: Promise<unknown>) => void waits.push(work),
      passThroughOnException() {},
    };
    const request = restRequest('/api/v1/openapi.json');
    const response = await worker.fetch(request, { ...env, METRICS }, context as unknown as ExecutionContext);
    vi.useRealTimers();
    expect([response.status, waits.length]).toEqual([200, 1]);
  });
});

describe('the document and the endpoint', () => {
  const rows = [...documented.matchAll(/^\| `(sitewire_edge_\w+)` \| (\w+) \|([^|]*)\| (.+) \|$/gm)];

  /** The nested list of a metric below the table: its label values, where they do not fit into its row. */
  function detailsOf(name: string): string {
    const [, item = ''] =
      documented
        .split(/\n(?=- |\n)/)
        .find((one) => one.startsWith(`- \`sitewire_edge_${name}\``))
        ?.split(/\n(?= +- )(.*)/s) ?? [];
    return item;
  }

  it('docs/monitoring.md lists exactly the metrics of GET /metrics, with their types', async () => {
    const scraped = [...(await read())].map(([name, { type }]) => [name, type]);
    expect(rows.map(([, name, type]) => [name, type])).toEqual(scraped);
  });

  it('docs/monitoring.md names exactly the labels that each metric has', async ({ organization }) => {
    const queue = { queue: 'q', ready: 1, unacked: 0, oldestMs: 0, drops: {} };
    await env.METRICS.get(env.METRICS.idFromName('metrics')).report({
      object: 'documented',
      class: 'Vhost',
      atMs: 1,
      queues: { organization: organization.slug, key: 'k', queues: [queue] },
    });
    const families = await read();
    for (const [, name = '', , labels = ''] of rows) {
      const [sample] = families.get(name)?.samples ?? [];
      const named = [...labels.matchAll(/`(\w+)`/g)].map(([, label]) => label);
      expect([name, Object.keys(sample?.labels ?? {})]).toEqual([name, named]);
    }
  });

  it.each(['device_dropped_messages_total', 'refused_dials_total', 'executions_total'])(
    'docs/monitoring.md names exactly the label values that %s has',
    async (name) => {
      const [, , , , meaning = ''] = rows.find(([, of]) => of === `sitewire_edge_${name}`) ?? [];
      const described = `${meaning}${detailsOf(name)}`;
      const named = [...described.matchAll(/`([^`]+)`/g)].map(([, value]) => value);
      const samples = (await read()).get(`sitewire_edge_${name}`)?.samples ?? [];
      const exposed = new Set(samples.flatMap(({ labels }) => Object.values(labels)));
      expect(exposed.size).toBeGreaterThan(0);
      expect(named.sort()).toEqual([...exposed].sort());
    },
  );
});
