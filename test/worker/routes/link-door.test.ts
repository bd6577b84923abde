/** The link paths: without a bridge’s proof they do not exist, and nothing is written (rule 1). */
import { listDurableObjectIds } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { deviceToken } from '#workerd/device-tokens.ts';
import {
  auditRows,
  basic,
  type Dial,
  dial,
  dialRequest,
  freshProof,
  lastUsedAtMs,
  rowCounts,
} from '#workerd/door.ts';
import { expectError, restRequest, send, sendRequest } from '#workerd/rest.ts';
import { stopClock } from '#workerd/site-clock.ts';
import { createKey, createOrganization, createPlant, type Plant, siteOf, vhostOf } from '#workerd/world.ts';
import { DIAL_HEADER } from '../../../durable-objects/dial.ts';
import {
  CLOCK_HEADER,
  LINK_PATHS,
  LINK_VERSION_HEADER,
  PROOF_TOLERANCE_MS,
  READY_PATH,
} from '../../../protocol/link/proof.ts';

interface Client {
  /** A dial that is accepted as it is. */
  good: Dial;
  otherPath: string;
  otherAuthorization: string;
  /** Everything that a dial could have written. */
  footprint: () => Promise<Footprint>;
}

interface Footprint {
  registry: unknown[];
  objects: Record<string, number>[];
}

async function amqpClient(): Promise<Client> {
  const organization = await createOrganization();
  const [key, other] = [await createKey(organization), await createKey(organization)];
  return {
    good: { path: LINK_PATHS.amqp, authorization: basic(organization.slug, key.key) },
    otherPath: LINK_PATHS.mqtt,
    otherAuthorization: basic(organization.slug, other.key),
    footprint: async () => ({
      registry: [
        await auditRows(organization.id),
        await env.DB.prepare('SELECT count(*) AS count FROM audit_events').first('count'),
        await lastUsedAtMs(key.id),
        await lastUsedAtMs(other.id),
        (await listDurableObjectIds(env.VHOST)).length,
      ],
      objects: [await rowCounts(vhostOf(key.id)), await rowCounts(vhostOf(other.id))],
    }),
  };
}

async function mqttClient(): Promise<Client> {
  const organization = await createOrganization();
  const [plant, other] = [await createPlant(organization), await createPlant(organization)];
  const authorizationOf = async ({ gateway: { id } }: Plant) => basic(id, await deviceToken(id));
  return {
    good: { path: LINK_PATHS.mqtt, authorization: await authorizationOf(plant) },
    otherPath: LINK_PATHS.amqp,
    otherAuthorization: await authorizationOf(other),
    footprint: async () => ({
      registry: [
        await auditRows(organization.id),
        await env.DB.prepare('SELECT count(*) AS count FROM audit_events').first('count'),
        await env.DB.prepare('SELECT * FROM devices WHERE organization_id = ?').bind(organization.id).raw(),
        (await listDurableObjectIds(env.SITE)).length,
      ],
      objects: [await rowCounts(siteOf(plant.id)), await rowCounts(siteOf(other.id))],
    }),
  };
}

/** Without the tables that an object with an open link writes in the background. */
function withoutBackground({ registry, objects }: Footprint): Footprint {
  return { registry, objects: objects.map(({ fact: _fact, outbox: _outbox, ...rest }) => rest) };
}

describe.each([
  ['amqp', amqpClient],
  ['mqtt', mqttClient],
])('/link/%s', (_protocol, createClient) => {
  it('a valid proof is accepted (rule 1)', async () => {
    const { good } = await createClient();
    expect((await dial(good)).status).toBe(101);
  });

  it('a missing, altered or foreign proof gets the 404 of an unknown path, and nothing is written (rule 1)', async () => {
    const { good, otherPath, otherAuthorization, footprint } = await createClient();
    const field = (index: number, value: string) => (header: string) =>
      header.split(';').with(index, value).join(';');
    const dials: Record<string, Dial> = {
      'no proof': { ...good, tamper: () => undefined },
      'an empty proof': { ...good, tamper: () => '' },
      'no MAC': { ...good, tamper: (header) => header.replace(/;[0-9a-f]{64}$/, '') },
      'a wrong MAC': { ...good, tamper: field(7, 'ab'.repeat(32)) },
      'a MAC cut short': { ...good, tamper: (header) => header.slice(0, -1) },
      'a MAC in upper case': {
        ...good,
        tamper: (header) => header.replace(/[0-9a-f]{64}$/, (mac) => mac.toUpperCase()),
      },
      'another secret': { ...good, signed: { secret: 'x'.repeat(40) } },
      'an empty secret': { ...good, signed: { secret: '' } },
      'another bridge': { ...good, tamper: field(0, 'bridge-2') },
      'another boot': { ...good, tamper: field(1, 'boot-2') },
      'another connection': { ...good, tamper: field(2, crypto.randomUUID()) },
      'a forged address': { ...good, tamper: field(3, '198.51.100.1') },
      'a forged fingerprint': { ...good, tamper: field(4, 'ab'.repeat(32)) },
      'a forged time': { ...good, tamper: field(5, String(Date.now() + 1)) },
      'a forged probe': { ...good, tamper: field(6, 'ab'.repeat(16)) },
      'the proof of another path': { ...good, signed: { path: otherPath } },
      'the proof of another credential': { ...good, signed: { authorization: otherAuthorization } },
      'the proof of no credential': { ...good, signed: { authorization: '' } },
      'a field too many': { ...good, tamper: (header) => header.replace(';', ';;') },
      'two proofs': { ...good, tamper: (header) => `${header}, ${header}` },
      'no upgrade': { ...good, headers: { upgrade: 'h2c' } },
      'the dial of an object': {
        ...good,
        tamper: () => undefined,
        headers: { [DIAL_HEADER]: JSON.stringify(freshProof()) },
      },
    };
    const unknown = await (await send('/link/unknown')).text();
    const before = await footprint();
    for (const [title, options] of Object.entries(dials)) {
      const response = await dial(options);
      expect([title, response.status]).toEqual([title, 404]);
      expect([title, response.webSocket]).toEqual([title, null]);
      expect(await response.clone().text()).toBe(unknown);
      await expectError(response, 404, 'NOT_FOUND');
    }
    expect(await footprint()).toEqual(before);
  });

  it('a bridge with an unserved link version gets 400 naming both versions; without a valid proof, 404', async () => {
    const { good, footprint } = await createClient();
    const before = await footprint();
    for (const version of ['0', '2', '', '01', 'x']) {
      const headers = { [LINK_VERSION_HEADER]: version };
      const body = await expectError(await dial({ ...good, headers }), 400, 'BAD_REQUEST');
      expect(body.message).toBe(
        `The edge serves link version 1, and this bridge speaks ${version || 'none'}. Update the older of the two`,
      );
      const signed = { secret: 'x'.repeat(40) };
      await expectError(await dial({ ...good, headers, signed }), 404, 'NOT_FOUND');
    }
    expect(await footprint()).toEqual(before);
  });

  it('POST, PUT, PATCH, DELETE and OPTIONS get the 404 of an unknown path, with or without a valid proof (rule 1)', async () => {
    const { good, footprint } = await createClient();
    const unknown = await (await send('/link/unknown')).text();
    const before = await footprint();
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      for (const options of [good, { ...good, tamper: () => undefined }]) {
        const response = await sendRequest(new Request(dialRequest(options), { method }));
        expect([method, await response.clone().text()]).toEqual([method, unknown]);
        await expectError(response, 404, 'NOT_FOUND');
      }
    }
    expect(await footprint()).toEqual(before);
  });

  it('a proof whose time differs from the edge’s by more than 60 s gets 404 (rule 1)', async () => {
    const { good, footprint } = await createClient();
    const now = stopClock();
    const before = await footprint();
    for (const offMs of [PROOF_TOLERANCE_MS + 1, -PROOF_TOLERANCE_MS - 1, 86_400_000, 1 - now]) {
      const response = await dial({ ...good, proof: { timeMs: now + offMs } });
      await expectError(response, 404, 'NOT_FOUND');
    }
    expect(await footprint()).toEqual(before);
    for (const offMs of [PROOF_TOLERANCE_MS, -PROOF_TOLERANCE_MS, 0]) {
      const response = await dial({ ...good, proof: { timeMs: now + offMs } });
      expect([offMs, response.status]).toEqual([offMs, 101]);
    }
  });

  it('a replayed proof gets 404 while its link is open (rule 1)', async () => {
    const { good, footprint } = await createClient();
    const request = dialRequest(good);
    expect((await sendRequest(request.clone())).status).toBe(101);
    // An old mark, so that a use that is counted by mistake shows.
    await env.DB.prepare('UPDATE api_keys SET last_used_at_ms = 1').run();
    const before = withoutBackground(await footprint());
    for (let repeat = 0; repeat < 3; repeat++) {
      await expectError(await sendRequest(request.clone()), 404, 'NOT_FOUND');
    }
    expect(withoutBackground(await footprint())).toEqual(before);
  });

  it('accepts one of concurrent dials with one proof, and the others get 404 (rule 1)', async () => {
    const { good } = await createClient();
    const request = dialRequest(good);
    const responses = await Promise.all(Array.from({ length: 8 }, () => sendRequest(request.clone())));
    const statuses = responses.map((response) => response.status).sort();
    expect(statuses).toEqual([101, ...Array.from({ length: 7 }, () => 404)]);
  });

  it('a replayed proof gets 404 after its link was closed (rule 1)', async () => {
    const { good } = await createClient();
    const now = stopClock();
    const request = dialRequest({ ...good, proof: { timeMs: now + PROOF_TOLERANCE_MS } });
    const { webSocket } = await sendRequest(request.clone());
    webSocket?.accept();
    webSocket?.close(1000, 'done');
    for (const laterMs of [1, PROOF_TOLERANCE_MS, 2 * PROOF_TOLERANCE_MS, 2 * PROOF_TOLERANCE_MS + 1]) {
      vi.setSystemTime(now + laterMs);
      // Another dial makes the object delete its expired connection ids.
      expect((await dial(good)).status).toBe(101);
      await expectError(await sendRequest(request.clone()), 404, 'NOT_FOUND');
    }
  });

  it('a valid proof without a credential, or with a malformed one, gets 401 (rule 1)', async () => {
    const { good } = await createClient();
    const credentials = [undefined, '', 'Basic', 'Basic !', 'Basic eA==', 'Bearer x', 'Basic eDp5 eDp5'];
    for (const authorization of credentials) {
      const options: Dial = { path: good.path, ...(authorization === undefined ? {} : { authorization }) };
      await expectError(await dial(options), 401, 'UNAUTHORIZED');
    }
  });

  it('a credential in broken Base64 gets 401 (spec: Errors)', async () => {
    const { good } = await createClient();
    vi.spyOn(console, 'error').mockImplementation(() => {});
    await expectError(await dial({ ...good, authorization: 'Basic A' }), 401, 'UNAUTHORIZED');
  });

  it('a request without a proof gets the same headers as one for an unknown path (rule 1)', async () => {
    const { good } = await createClient();
    const [door, unknown] = [await send(good.path), await send('/link/unknown')];
    expect([...door.headers.keys()]).toEqual([...unknown.headers.keys()]);
  });
});

it('the internal dial header, sent by a client to another path, opens nothing: 404 or 401 (rule 1)', async () => {
  const headers = { upgrade: 'websocket', [DIAL_HEADER]: JSON.stringify(freshProof()) };
  await expectError(await sendRequest(restRequest('/link', { headers })), 404, 'NOT_FOUND');
  await expectError(await sendRequest(restRequest('/api/v1/vcp/sites', { headers })), 401, 'UNAUTHORIZED');
});

describe('the readiness check of bridges', () => {
  const asked = (secret: string, timeMs = Date.now()) =>
    sendRequest(dialRequest({ path: READY_PATH, signed: { secret }, proof: { timeMs }, headers: {} }));

  it('accepts each of several configured bridge secrets, so they can be rotated', async () => {
    const before = env.BRIDGE_SECRET;
    const newest = 'n'.repeat(40);
    expect((await asked(before)).status).toBe(204);
    expect((await asked(newest)).status).toBe(404);
    env.BRIDGE_SECRET = `${newest}, ${before}`;
    try {
      for (const secret of [newest, before]) expect((await asked(secret)).status).toBe(204);
      for (const secret of ['', `${newest},${before}`]) expect((await asked(secret)).status).toBe(404);
    } finally {
      env.BRIDGE_SECRET = before;
    }
  });

  it('accepts the secret of one bridge from that bridge only, which may use no other (rule 1)', async () => {
    const shared = env.BRIDGE_SECRET;
    const [own, newer] = ['o'.repeat(40), `${'n'.repeat(40)}==`];
    const by = async (bridge: string, secret: string) => {
      const options = { path: READY_PATH, signed: { secret }, proof: { bridge }, headers: {} };
      return (await sendRequest(dialRequest(options))).status;
    };
    env.BRIDGE_SECRET = `${shared}, bridge-2=${newer}, bridge-2=${own}`;
    try {
      expect([await by('bridge-1', shared), await by('bridge-1', own)]).toEqual([204, 404]);
      expect([await by('bridge-2', own), await by('bridge-2', newer)]).toEqual([204, 204]);
      expect([await by('bridge-2', shared), await by('bridge-3', newer)]).toEqual([404, 404]);
    } finally {
      env.BRIDGE_SECRET = shared;
    }
  });

  it('answers 400 to a bridge whose link version is not served', async () => {
    const headers = { [LINK_VERSION_HEADER]: '0' };
    await expectError(await sendRequest(dialRequest({ path: READY_PATH, headers })), 400, 'BAD_REQUEST');
  });

  it('sends the edge’s time to a bridge with a wrong clock, and not to clients without the secret', async () => {
    const late = await asked(env.BRIDGE_SECRET, Date.now() - 2 * PROOF_TOLERANCE_MS);
    expect(late.status).toBe(404);
    expect(Math.abs(Number(late.headers.get(CLOCK_HEADER)) - Date.now())).toBeLessThan(10_000);
    const stranger = await asked('x'.repeat(40), Date.now() - 2 * PROOF_TOLERANCE_MS);
    expect([stranger.status, stranger.headers.get(CLOCK_HEADER)]).toEqual([404, null]);
    expect((await asked('x'.repeat(40))).headers.get(CLOCK_HEADER)).toBeNull();
  });
});
