/**
 * A key from its creation on: the returned bundle works as it is pasted, and a refused probe leaves nothing.
 */
import { createHash } from 'node:crypto';
import { connect } from 'amqplib';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  audited,
  connectAsPasted,
  KEYS,
  optionsOf,
  recordOf,
  wanted,
  withoutBridge,
} from '#support/api-keys.ts';
import { setpointOrder } from '#support/returning-partner.ts';
import { SilentListener } from '#support/silent-listener.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import type { ApiKeyRecord, CreatedApiKey } from '../../protocol/api-key-record.ts';
import { type ApiKeyScope, VCP_WRITE_SCOPES } from '../../protocol/scopes.ts';
import { vhostOf } from '../../tools/objects.ts';
import { Partner } from '../../tools/partner.ts';
import { VCP_SCOPES } from '../../tools/seed.ts';

const FAILED = { statusCode: 500, code: 'INTERNAL_SERVER_ERROR', error: 'Internal Server Error' };

const stack = suiteStack();

async function rowsOf({ name }: { name: string }): Promise<Record<string, unknown>[]> {
  const database = await stack.edge.miniflare.getD1Database('DB');
  const rows = await database.prepare('SELECT * FROM api_keys WHERE name = ?').bind(name).all();
  return rows.results;
}

/** A partner of a key, which receives the events of its commands. */
async function partnerOf(created: CreatedApiKey): Promise<Partner> {
  const partner = await Partner.connect(optionsOf(stack, created));
  onTestFinished(() => partner.close());
  await partner.consume('event.status');
  return partner;
}

async function ackOf(partner: Partner, siteId: string): Promise<Record<string, unknown>> {
  const { payload } = setpointOrder(siteId);
  const { correlationId } = await partner.publish('site-setpoint', siteId, payload);
  return (await partner.waitFor((event) => event.correlationId === correlationId)).payload;
}

/** Only the audit row of the attempt remains. */
async function expectNoTrace(request: { name: string }): Promise<void> {
  expect(await rowsOf(request)).toEqual([]);
  const [row, ...more] = await audited(stack, 'api_key.creation_failed', request.name);
  expect(more).toEqual([]);
  expect(row).toMatchObject({ outcome: 'FAILURE', target: null, actor: { type: 'USER' } });
  const keyPrefix = String(row?.details.keyPrefix);
  expect(JSON.stringify(await audited(stack, 'partner.connected', keyPrefix))).toBe('[]');
}

describe('a key with broker scopes', () => {
  it('is returned with every field of the spec, and D1 stores none of its secrets [C-5.2]', async () => {
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const allowedPlantIds = [stack.credentials.plantId];
    const scopes: ApiKeyScope[] = ['vcp:write:mode', 'vcp:connect', 'vcp:read'];
    const request = wanted(scopes, { allowedPlantIds, expiresAt });
    const { status, body } = await stack.admin.ask<CreatedApiKey>('POST', KEYS, request);
    const { user } = await stack.admin.call<{ user: ApiKeyRecord['creator'] }>('GET', '/auth/me');
    const { id: organizationId, slug } = stack.credentials.organization;
    const { key, apiKey } = body;
    const [vhost, port] = [`partner-${apiKey.id}`, stack.bridge.ports.amqps];
    const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect([status, body]).toEqual([
      201,
      {
        key: expect.stringMatching(/^sw_[0-9A-Za-z]{49}$/),
        signingKey: expect.stringMatching(/^[0-9a-f]{64}$/),
        apiKey: {
          ...request,
          id: expect.stringMatching(/^[0-9a-f-]{36}$/),
          keyPrefix: key.slice(0, 11),
          effectiveScopes: scopes,
          allowedIps: [],
          sees: 'PARTNER',
          vhost,
          isActive: true,
          lastUsedAt: null,
          createdBy: user.id,
          organizationId,
          createdAt: instant,
          updatedAt: instant,
          creator: { id: user.id, name: user.name, email: user.email },
        },
        connectionBundle: {
          amqps: {
            uri: `amqps://${slug}:${key}@localhost:${port}/${vhost}`,
            host: 'localhost',
            port,
            username: slug,
            vhost,
            exchange: 'vcp',
            caCertificate: stack.ca,
          },
          slug,
          queues: {
            telemetry: `vcp.${slug}.event.telemetry`,
            alarms: `vcp.${slug}.event.alarm`,
            ack: `vcp.${slug}.event.status`,
            execution: `vcp.${slug}.event.execution`,
            deadLetter: `vcp.${slug}.dead-letter`,
            command: `vcp.${slug}.command`,
            schedule: `vcp.${slug}.schedule`,
            config: `vcp.${slug}.config`,
          },
          rest: { baseUrl: `${stack.edge.url}/api/v1/vcp/sites` },
          sites: [{ siteId: stack.credentials.plantId, name: 'Plant' }],
          codeSamples: { node: expect.any(String), python: expect.any(String), curl: expect.any(String) },
        },
      },
    ]);
    expect(await recordOf(stack, apiKey.id)).toEqual(apiKey);
    const stored = JSON.stringify(await rowsOf(request));
    expect(stored).toContain(createHash('sha256').update(key).digest('hex'));
    for (const secret of [key, body.signingKey]) expect(stored).not.toContain(secret);
  });

  it('connects as its bundle says, and counts as used from its first connection on, not from its probe [C-5.4]', async () => {
    const created = await stack.admin.createKey(wanted(VCP_SCOPES));
    const { apiKey, key, connectionBundle } = created;
    const tested = await stack.admin.call('POST', `${KEYS}/${apiKey.id}/test-connection`, { key });
    expect(tested).toMatchObject({ ok: true });
    expect(await recordOf(stack, apiKey.id)).toMatchObject({ lastUsedAt: null });
    expect(await audited(stack, 'partner.connected', apiKey.id)).toEqual([]);

    const fromMs = Date.now();
    const connection = await connectAsPasted(stack, created);
    onTestFinished(() => connection.close());
    const channel = await connection.createChannel();
    const { telemetry, alarms, ack } = connectionBundle?.queues ?? { telemetry: '', alarms: '', ack: '' };
    for (const queue of [telemetry, alarms, ack]) expect((await channel.checkQueue(queue)).queue).toBe(queue);
    // Each of the two writes happens once and is skipped within a minute, so a write by the probe would
    // remain visible.
    const lastUsedAt = await eventually(
      async () => (await recordOf(stack, apiKey.id)).lastUsedAt ?? undefined,
    );
    expect(Date.parse(lastUsedAt)).toBeGreaterThanOrEqual(fromMs);
    const [row] = await eventually(async () => {
      const rows = await audited(stack, 'partner.connected', apiKey.id);
      return rows.length > 0 ? rows : undefined;
    });
    expect(Date.parse(row?.createdAt ?? '')).toBeGreaterThanOrEqual(fromMs);
    const response = await fetch(connectionBundle?.rest.baseUrl ?? '', { headers: { 'x-api-key': key } });
    expect(response.status).toBe(200);
  });

  it('sees only its permitted plants: its command for another one is REJECTED DEVICE_OFFLINE [C-7.1]', async () => {
    const [own, other] = [await stack.addPlant(), await stack.addPlant()];
    const created = await stack.admin.createKey(wanted(VCP_SCOPES, { allowedPlantIds: [own.id] }));
    const partner = await partnerOf(created);
    expect(await ackOf(partner, other.id)).toMatchObject({
      status: 'REJECTED',
      rejectionCode: 'DEVICE_OFFLINE',
    });
    expect(await ackOf(partner, own.id)).toMatchObject({ status: 'QUEUED' });
    const { body } = await stack.rest('/vcp/sites', created.key);
    expect(JSON.stringify(body)).toContain(own.id);
    expect(JSON.stringify(body)).not.toContain(other.id);
    const log = await stack.rest(`/vcp/sites/${other.id}/commands`);
    expect(JSON.stringify(log.body)).not.toContain('SITE_SETPOINT');
  });

  it('created at the same time as another is separate from it, with its own vhost [C-6.1]', async () => {
    const plant = await stack.addPlant();
    const requests = [wanted(VCP_SCOPES), wanted(['vcp:connect'])];
    const keys = await Promise.all(requests.map((request) => stack.admin.createKey(request)));
    expect(new Set(keys.flatMap(({ key, signingKey }) => [key, signingKey])).size).toBe(4);
    for (const key of keys) {
      expect(await ackOf(await partnerOf(key), plant.id)).toMatchObject({ status: 'QUEUED' });
    }
    const [first, second] = keys.map(({ apiKey }) => apiKey.vhost);
    const stolen = (keys[0]?.connectionBundle?.amqps.uri ?? '').replace(String(first), String(second));
    await expect(connect(stolen, { ca: [stack.ca] })).rejects.toThrow('ConnectionOpenOk');
  });
});

describe('a key whose probe fails', () => {
  it('is not created without a bridge: 500, an audit row, and nothing else is left [C-5.4]', async () => {
    const request = wanted(VCP_SCOPES);
    const { status, body } = await withoutBridge(stack, () => stack.admin.ask('POST', KEYS, request));
    expect([status, body]).toMatchObject([500, FAILED]);
    expect(JSON.stringify(body)).not.toMatch(/ECONN|refused|sw_/);
    await expectNoTrace(request);
  });

  it('is not created with only vcp:write:*, which may not connect: 500, and nothing is left [C-5.3]', async () => {
    const request = wanted(['vcp:write:setpoint']);
    const { status, body } = await stack.admin.ask('POST', KEYS, request);
    expect([status, body]).toMatchObject([500, FAILED]);
    await expectNoTrace(request);
    expect(await audited(stack, 'partner.connection_refused', 'missing scope')).toEqual([]);
  });

  it('cannot be used during its probe, and its vhost is deleted with it [C-5.4]', async () => {
    const request = wanted(VCP_SCOPES);
    await withoutBridge(stack, async () => {
      const listener = await SilentListener.at(stack.bridge.ports.amqps);
      try {
        const asked = stack.admin.ask('POST', KEYS, request);
        await eventually(() => listener.isDialed || undefined);
        const [row] = await rowsOf(request);
        const id = String(row?.id);
        expect(row?.state).toBe('probing');
        const vhost = await vhostOf(stack.edge.miniflare, id);
        expect(await vhost.receivePassing('site', [])).toBe('taken');
        expect(await stack.admin.ask('GET', `${KEYS}/${id}`)).toMatchObject({ status: 404 });
        expect((await stack.admin.list<ApiKeyRecord>(KEYS)).map((one) => one.id)).not.toContain(id);

        listener.hangUp();
        expect(await asked).toMatchObject({ status: 500, body: FAILED });
        expect(await vhost.receivePassing('site', [])).toBe('gone');
      } finally {
        await listener.stop();
      }
    });
    await expectNoTrace(request);
  });
});

describe('a key without a vhost', () => {
  it('has no bundle and no probe with REST scopes, and can read immediately [C-5.3]', async () => {
    const created = await withoutBridge(stack, () => stack.admin.createKey(wanted(['vcp:read'])));
    expect([created.apiKey.vhost, created.connectionBundle]).toEqual([null, null]);
    expect(created.signingKey).toMatch(/^[0-9a-f]{64}$/);
    expect((await stack.rest('/vcp/sites', created.key)).status).toBe(200);
    await expect(partnerOf(created)).rejects.toThrow(/403/);
  });

  it('has no bundle and no probe with only trading:connect, and has its own queues at / [C-5.3]', async () => {
    const [first, second] = await withoutBridge(stack, () =>
      Promise.all([1, 2].map(() => stack.admin.createKey(wanted(['trading:connect'])))),
    );
    if (!first || !second) throw new Error('no key');
    expect([first.apiKey.vhost, first.connectionBundle]).toEqual([null, null]);
    expect(first.apiKey.effectiveScopes).toEqual(['trading:connect', ...VCP_WRITE_SCOPES]);
    const [partner, other] = [await partnerOf(first), await partnerOf(second)];
    const { plantId } = stack.credentials;
    expect(await ackOf(partner, plantId)).toMatchObject({ status: 'QUEUED' });
    expect(await ackOf(other, plantId)).toMatchObject({ status: 'QUEUED' });
    expect([partner.events.length, other.events.length]).toEqual([1, 1]);
  });

  it('passes its connection test at / with only trading:connect [C-5.5]', async () => {
    const { key, apiKey } = await stack.admin.createKey(wanted(['trading:connect']));
    const path = `/partner/api-keys/${apiKey.id}/test-connection`;
    expect(await stack.admin.call('POST', path, { key })).toMatchObject({ ok: true });
  });

  it('may have allowedIps if no scope opens REST, although the edge knows no client addresses [C-4.2]', async () => {
    const scopes: ApiKeyScope[] = ['vcp:connect', 'vcp:write:setpoint'];
    const near = await stack.admin.createKey({ ...wanted(scopes), allowedIps: ['127.0.0.0/8', '::1/128'] });
    const far = await stack.admin.createKey({ ...wanted(scopes), allowedIps: ['192.0.2.0/24'] });
    expect(await ackOf(await partnerOf(near), stack.credentials.plantId)).toMatchObject({ status: 'QUEUED' });
    await expect(partnerOf(far)).rejects.toThrow(/403/);
    const request = { ...wanted([...scopes, 'vcp:read']), allowedIps: ['127.0.0.0/8'] };
    expect(await stack.admin.ask('POST', '/partner/api-keys', request)).toMatchObject({
      status: 400,
      body: { code: 'API_KEY_CIDR_NOT_IMPLEMENTED', message: expect.stringContaining('"vcp:read"') },
    });
  });
});
