/** Backups of a plant and of a key: what comes back, what a restore never undoes, and what the fence keeps out [C-14.8]. */
import { runInDurableObject } from 'cloudflare:test';
import {
  ask,
  type BackupObject,
  backUp,
  lower,
  raise,
  readParts,
  restore,
  tryRestore,
} from '#workerd/backups.ts';
import { connect } from '#workerd/devices.ts';
import { dialMqtt } from '#workerd/door.ts';
import { hand } from '#workerd/outbox-events.ts';
import { Partner } from '#workerd/partner.ts';
import { setClock, stopClock } from '#workerd/site-clock.ts';
import { sendTelemetry } from '#workerd/site-devices.ts';
import { numberOf } from '#workerd/site-rows.ts';
import { describe, expect, expectError, INSTANT, test } from '#workerd/worker-test.ts';
import { siteOf, vhostOf } from '#workerd/world.ts';
import { DEFAULT_SITE_CONFIG } from '../../../protocol/site-config.ts';

const { hardLimits: _none, ...DEFAULT } = DEFAULT_SITE_CONFIG;
const PEAK = { ...DEFAULT, operatingMode: 'PEAK_SHAVING' } as const;

const it = test
  .extend('object', ({ plantId }): BackupObject => ({ object: 'plant', id: plantId }))
  .extend('mode', ({ team, plantId }) => async () => {
    return (await team.viewer.read<{ operatingMode: string }>(`/plants/${plantId}/config`)).operatingMode;
  })
  .extend(
    'setPeak',
    ({ team, plantId }) =>
      () =>
        team.admin.put(`/plants/${plantId}/config`, PEAK),
  );

/** The rows that a restored object has, too: without the header and the copy of the registry. */
function rowsOf(text: string): string[] {
  return linesOf(text)
    .slice(1, -1)
    .filter((line) => !line.startsWith('["registry'));
}

/** The lines of a backup; the first is its header. */
function linesOf(text: string): string[] {
  return text.trimEnd().split('\n');
}

function textOf(lines: string[]): string {
  return `${lines.join('\n')}\n`;
}

describe('a backup of a plant', () => {
  it('brings back what the plant had, and the device connects again with its credentials', async ({
    object,
    device,
    link,
    mode,
    setPeak,
    team,
  }) => {
    await sendTelemetry(link, device, { gridPowerKw: 7 });
    const before = await mode();
    const text = await backUp(object);
    expect((await setPeak()).status).toBe(200);
    expect([before, await mode()]).toEqual(['STANDARD', 'PEAK_SHAVING']);
    expect(await restore(object, text)).toEqual({ rows: expect.any(Number), changedDevices: 0 });
    expect(await mode()).toBe('STANDARD');
    await sendTelemetry(await connect(device), device, { gridPowerKw: 8 });
    expect((await setPeak()).status).toBe(200);
    expect((await team.trailOf(object.id)).map(([event]) => event)).toEqual(
      expect.arrayContaining(['plant.backed_up', 'plant.restored']),
    );
  });

  it('brings back a lost object entirely, in parts that end within a line', async ({
    object,
    device,
    link,
  }) => {
    await sendTelemetry(link, device, { gridPowerKw: 7 });
    await runInDurableObject(siteOf(object.id), (_site, { storage }) => {
      const data = Uint8Array.from({ length: 100_000 }, (_, index) => index % 251).buffer;
      const columns = storage.sql
        .exec<{ name: string; type: string }>('PRAGMA table_info(telemetry_raw)')
        .toArray()
        .map(({ name, type }) => ({ name, value: type === 'BLOB' ? data : name === 'id' ? 9_000 : 5 }));
      const names = columns.map(({ name }) => name).join(', ');
      const marks = columns.map(() => '?').join(', ');
      storage.sql.exec(
        `INSERT INTO telemetry_raw (${names}) VALUES (${marks})`,
        ...columns.map(({ value }) => value),
      );
      for (let id = 0; id < 2_000; id++)
        storage.sql.exec('INSERT INTO seen_connection VALUES (?, 1)', `${id}-${'x'.repeat(300)}`);
    });
    // Closes the session of the device, whose end is then in the backup.
    await backUp(object);
    const fence = await raise(object);
    const parts = await readParts(object, fence);
    await lower(object, fence);
    expect(parts.length).toBeGreaterThan(1);
    const text = parts.join('');
    await siteOf(object.id)
      .erase()
      .catch(() => undefined);
    await restore(object, text, 77_777);
    expect(rowsOf(await backUp(object))).toEqual(rowsOf(text));
  });

  it('leaves out the tables of the platform, and leaves them as they are', async ({
    object,
    device,
    link,
  }) => {
    await sendTelemetry(link, device, { gridPowerKw: 7 });
    const run = (sql: string) =>
      runInDurableObject(siteOf(object.id), (_site, { storage }) => storage.sql.exec(sql).toArray());
    await run('CREATE TABLE __miniflare_do_name (id INTEGER PRIMARY KEY, name TEXT)');
    await run(`INSERT INTO __miniflare_do_name VALUES (1, 'one')`);
    const text = await backUp(object);
    expect(text).not.toContain('__miniflare_do_name');
    await restore(object, text);
    expect(await run('SELECT name FROM __miniflare_do_name')).toEqual([{ name: 'one' }]);
  });

  it('does not undo a revocation, a suspension, a new secret or a move', async ({ object, team, device }) => {
    const [revoked, suspended, moved] = await Promise.all([
      team.newTokenDevice({ plantId: object.id }),
      team.newTokenDevice({ plantId: object.id }),
      team.newTokenDevice({ plantId: object.id, type: 'SENSOR' }),
    ]);
    const text = await backUp(object);
    await team.admin.operate(revoked.id, 'revoke');
    await team.admin.operate(suspended.id, 'suspend');
    await team.moveDevice(moved.id, (await team.newPlant()).id);
    const { hmacSecret } = await team.rotateSecret(device.id);
    for (const isLost of [false, true]) {
      if (isLost)
        await siteOf(object.id)
          .erase()
          .catch(() => undefined);
      expect(await restore(object, text)).toEqual({
        rows: expect.any(Number),
        changedDevices: isLost ? 3 : 1,
      });
      expect(await numberOf(object.id, `SELECT count(*) FROM device WHERE id = '${moved.id}'`)).toBe(0);
      for (const one of [revoked, suspended]) expect((await dialMqtt(one.id, one.token)).status).toBe(401);
      if (isLost) continue;
      await sendTelemetry(await connect(device), { ...device, hmacSecret }, { gridPowerKw: 3 });
    }
  });
});

describe('a backup of a key', () => {
  it('brings back the messages in its queues', async ({ organization, key }) => {
    const object = { object: 'key', id: key.id } as const;
    const partner = await Partner.connect(organization, key);
    await partner.declare('own', {});
    const text = await backUp(object);
    expect(text).toContain(key.id);
    await runInDurableObject(vhostOf(key.id), (_vhost, { storage }) => {
      storage.sql.exec('DELETE FROM partner_queue');
    });
    await restore(object, text);
    const queues = await runInDurableObject(vhostOf(key.id), (_vhost, { storage }) =>
      storage.sql.exec('SELECT name FROM partner_queue').toArray(),
    );
    expect(queues).toHaveLength(1);
    expect(await Partner.connect(organization, key)).toBeDefined();
  });

  it('has no event journal, and its restore leaves the journal, whose sequences go on [C-12.1]', async ({
    key,
  }) => {
    const object = { object: 'key', id: key.id } as const;
    const siteId = crypto.randomUUID();
    const read = async () => await key.read<{ events: { sequence: number; event: string }[] }>('/vcp/events');
    await hand(key, siteId, 1, 2);
    const text = await backUp(object);
    await hand(key, siteId, 3, 1);
    const before = await read();
    expect(before.events).toHaveLength(3);
    expect(text).not.toContain(JSON.parse(before.events[0]?.event ?? '').messageId);
    await restore(object, text);
    expect(await read()).toEqual(before);
    await hand(key, siteId, 4, 1);
    const { events } = await read();
    expect(events.slice(0, 3)).toEqual(before.events);
    expect(events[3]?.sequence).toBe((before.events[2]?.sequence ?? 0) + 1);
  });

  it('cannot revive a revoked key, even if D1 does not know of the revocation', async ({ team }) => {
    const key = await team.newKey();
    const object = { object: 'key', id: key.id } as const;
    const text = await backUp(object);
    await vhostOf(key.id).revoke(key.id);
    await expectError(await tryRestore(object, text), 400, 'VALIDATION_ERROR');
    await team.orgAdmin.delete(`/partner/api-keys/${key.id}`, { org: team.id });
    await expectError(await ask('fence', object), 404, 'NOT_FOUND');
  });
});

describe('the fence', () => {
  it('says to those that it refuses why, and for how long at most [C-14.8]', async ({
    object,
    device,
    setPeak,
  }) => {
    const fence = await raise(object, 10);
    const most = 10 * 60;
    const refused = await setPeak();
    const { message } = await expectError(refused, 503, 'SERVICE_UNAVAILABLE');
    expect(message).toMatch(/backup|restore/);
    const until = /\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)\b/.exec(message)?.[1] ?? '';
    const leftMs = Date.parse(until) - Date.now();
    expect(leftMs).toBeGreaterThan(0);
    expect(leftMs).toBeLessThanOrEqual(most * 1_000);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(most);
    const dialed = await dialMqtt(device.id, device.token);
    expect((await expectError(dialed, 503, 'SERVICE_UNAVAILABLE')).message).toContain(until);
    await lower(object, fence);
    expect((await setPeak()).status).toBe(200);
  });

  it('refuses changes and connections with 503, and lets reads through', async ({
    object,
    device,
    link,
    mode,
    setPeak,
  }) => {
    const fence = await raise(object);
    expect(await link.closed).toBeDefined();
    const refused = await setPeak();
    expect(refused.headers.get('retry-after')).toBe('2');
    await expectError(refused, 503, 'SERVICE_UNAVAILABLE');
    expect((await dialMqtt(device.id, device.token)).status).toBe(503);
    expect(await mode()).toBe('STANDARD');
    await expectError(await ask('fence', object), 409, 'CONFLICT');
    await lower(object, fence);
    await lower(object, fence);
    expect((await setPeak()).status).toBe(200);
  });

  it('does not delay a revocation, a suspension, a new secret or a deletion: each ends the backup', async ({
    object,
    team,
    device,
  }) => {
    const key = await team.newKey();
    const behind = { object: 'key', id: key.id } as const;
    await raise(behind);
    const answer = await team.orgAdmin.delete(`/partner/api-keys/${key.id}`, { org: team.id });
    expect([answer.status, (await key.call('/plants')).status]).toEqual([200, 401]);
    expect(await vhostOf(key.id).fence()).toBeUndefined();
    const { admin } = team;
    for (const urgent of [
      () => admin.operate(device.id, 'suspend'),
      () => admin.operate(device.id, 'reactivate'),
      () => admin.operate(device.id, 'rotate-secret'),
      () => admin.operate(device.id, 'mqtt-token', { endOthers: true }),
      () => admin.operate(device.id, 'revoke'),
      () => admin.delete(`/devices/${device.id}`),
    ]) {
      const fence = await raise(object);
      expect((await urgent()).status).toBe(200);
      await expectError(await ask('read', { ...object, fence }), 409, 'CONFLICT');
    }
    expect((await dialMqtt(device.id, device.token)).status).toBe(401);
    expect((await team.trailOf(object.id)).map(([event]) => event)).not.toContain('plant.backed_up');
  });

  it('ends at its time, when nobody lowers it', async ({ object, setPeak }) => {
    const now = stopClock();
    const fence = await raise(object, 1);
    setClock(now + 60_000);
    await expectError(await ask('read', { ...object, fence }), 409, 'CONFLICT');
    expect([503, 200]).toContain((await setPeak()).status);
    expect((await setPeak()).status).toBe(200);
  });

  it('forgets the parts that were staged', async ({ object }) => {
    const fence = await raise(object);
    await ask('stage', { ...object, fence, part: 0, text: 'x' });
    await lower(object, fence);
    const tables = `SELECT count(*) FROM sqlite_master WHERE name = 'restore_part'`;
    expect(await numberOf(object.id, tables)).toBe(0);
  });

  it('is needed for each step', async ({ object }) => {
    const fence = crypto.randomUUID();
    for (const [step, more] of [
      ['read', {}],
      ['stage', { part: 0, text: 'x' }],
      ['restore', {}],
    ] as const)
      await expectError(await ask(step, { ...object, fence, ...more }), 409, 'CONFLICT');
    await expectError(await ask('fence', { object: 'plant', id: fence }), 404, 'NOT_FOUND');
    await expectError(await ask('read', { ...object, fence, after: 'x' }), 400, 'VALIDATION_ERROR');
    const up = { ...object, fence: await raise(object) };
    const after = JSON.stringify({ table: 0, key: [1, 2, 3], rows: 0 });
    await expectError(await ask('read', { ...up, after }), 400, 'VALIDATION_ERROR');
  });

  it('is up until the time in the answer', async ({ object }) => {
    const answer = await ask('fence', object);
    expect(await answer.json()).toEqual({ fence: expect.any(String), until: INSTANT });
  });
});

describe('a backup is refused, and nothing has changed,', () => {
  const broken: [string, (lines: string[]) => string, string][] = [
    ['that was cut off after a line', (lines) => textOf(lines.slice(0, -1)), 'cut off'],
    ['that was cut off within a line', (lines) => textOf(lines).slice(0, -4), 'cut off'],
    ['that is empty', () => '\n', 'not JSON'],
    ['that has no header', (lines) => textOf(lines.slice(1)), 'header'],
    [
      'of newer code',
      (lines) => textOf(lines).replace(/"schemaVersion":\d+/, '"schemaVersion":99'),
      'version 99',
    ],
    ['of another plant', (lines) => textOf(lines).replace(/"id":"[0-9a-f]{4}/, '"id":"ffff'), 'of the plant'],
    ['of a key', (lines) => textOf(lines).replace('"object":"plant"', '"object":"key"'), 'of the key'],
    [
      'with an unknown table',
      (lines) => textOf(lines).replace('"table":"device"', '"table":"phone"'),
      'unknown',
    ],
    [
      'with another column',
      (lines) => textOf(lines).replace('"columns":["id","epoch"', '"columns":["id","era"'),
      'other columns',
    ],
    [
      'with a row too few',
      (lines) => textOf(lines.filter((line) => !line.startsWith('["identity"'))),
      'rows instead of',
    ],
    ['with a short row', (lines) => textOf(lines.map(withoutLast)), 'number of values'],
    ['with a row twice', (lines) => textOf(lines.flatMap(twice)), 'not valid'],
    ['with an object as a row', (lines) => textOf([lines[0] ?? '', '{"a":1}', ...lines.slice(1)]), 'neither'],
    ['with a line after its end', (lines) => textOf([...lines, '[1]']), 'after its last'],
  ];

  it.for(broken)('%s', async ([_name, change, reason], { object, device, mode, setPeak, expect }) => {
    expect(device).toBeDefined();
    const text = await backUp(object);
    await setPeak();
    const bad = change(linesOf(text));
    expect(bad).not.toBe(text);
    const answer = await tryRestore(object, bad);
    const { message } = (await answer.clone().json()) as { message: string };
    await expectError(answer, 400, 'VALIDATION_ERROR');
    expect(message).toContain(reason);
    expect(await mode()).toBe('PEAK_SHAVING');
    await restore(object, text);
    expect(await mode()).toBe('STANDARD');
  });
});

/** A row of `fact` without its last value. */
function withoutLast(line: string): string {
  return line.startsWith('["identity"') ? '["identity"]' : line;
}

function twice(line: string): string[] {
  return line.startsWith('["identity"') ? [line, line] : [line];
}
