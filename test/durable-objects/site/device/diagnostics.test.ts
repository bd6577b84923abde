/** Diagnostics for operators: dropped messages with their reasons, and login attempts [C-3.8]. */
import { type DeviceTestLink, dialSite, telemetryMessage } from '#workerd/links.ts';
import { type SiteScene, setScene } from '#workerd/scene.ts';
import { MINUTE, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  connectTo,
  publish,
  publishAll,
  rawTelemetry,
  sendAck,
  sendTelemetry,
} from '#workerd/site-devices.ts';
import { evictSite, rowsOf } from '#workerd/site-rows.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createDevice } from '#workerd/world.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

const KEPT = 100;
const ADDRESS = '192.0.2.7';
const OTHER_ADDRESS = '192.0.2.8';

/** A refused login that does not count toward a suspension, unless changed. */
function refusal(
  organizationId: string,
  changes: { address?: string; reason?: string; counts?: boolean } = {},
) {
  return { address: ADDRESS, reason: 'token expired', counts: false, organizationId, ...changes };
}

/** Refused logins whose reasons are consecutive numbers. */
async function refuseLogins(scene: SiteScene, from: number, count: number) {
  const { site, gateway, organization } = scene;
  for (let at = from; at < from + count; at++)
    await site.noteRefusedLogin(gateway.id, refusal(organization.id, { reason: `${at}` }));
}

/** Sends malformed messages that contain consecutive numbers. */
async function sendMalformed(link: DeviceTestLink, from: number, count: number): Promise<void> {
  const payloads = Array.from({ length: count }, (_none, index) => `{"number${from + index}":`);
  expect(await publishAll(link, payloads)).toEqual(Array(count).fill(true));
}

/** Counts down: `last`, `last - 1`, … */
function down(last: number, count: number): string[] {
  return Array.from({ length: count }, (_none, index) => `${last - index}`);
}

describe('dropped messages', () => {
  it('are counted by reason and listed newest first, with the text that should have been signed [C-3.8]', async () => {
    const { site, link, gateway } = await setScene({ gateway: 'connected' });
    const used = telemetryMessage(gateway, '{"a":1}', { nonce: 'used' });
    await publish(link, used);
    setClock(START_MS + SECOND);
    await publish(link, 'hello', 'status');
    setClock(START_MS + 2 * SECOND);
    await publish(link, rawTelemetry(gateway, { data: '{"a":1}', nonce: 'n', sig: '0'.repeat(64) }));
    await publish(link, rawTelemetry(gateway, { data: '{"a":1}', ts: Math.round(START_MS / 1_000) }));
    await publish(link, telemetryMessage(gateway, '{"a":2}', { nonce: 'used' }));
    const { drops, recent } = await site.diagnostics(gateway.id);
    expect(drops).toEqual({ MALFORMED: 1, NONCE: 1, SIGNATURE: 1, TIMESTAMP: 1 });
    const at = formatInstant(START_MS + 2 * SECOND);
    expect(recent).toEqual([
      { at, topic: 'telemetry', reason: 'NONCE', detail: expect.stringContaining('"used" was used before') },
      { at, topic: 'telemetry', reason: 'TIMESTAMP', detail: expect.stringContaining('in seconds') },
      {
        at,
        topic: 'telemetry',
        reason: 'SIGNATURE',
        detail: expect.stringContaining('HMAC-SHA256'),
        expected: `${gateway.id}|${START_MS + 2 * SECOND}|n|{"a":1}`,
      },
      {
        at: formatInstant(START_MS + SECOND),
        topic: 'status',
        reason: 'MALFORMED',
        detail: expect.stringMatching(/\S/),
      },
    ]);
    expect(JSON.stringify(recent)).not.toContain(gateway.hmacSecret);
  });

  it('show the cause of a wrong signature if it is a known mistake [C-3.7]', async () => {
    const { site, link, gateway } = await setScene({ gateway: 'connected' });
    await publish(link, rawTelemetry(gateway, { data: '{"a": 1}', signedData: '{"a":1.0}' }));
    await publish(link, rawTelemetry(gateway, { data: '{"a":5.0}', signedData: '{"a":5}' }));
    const { recent } = await site.diagnostics(gateway.id);
    expect(recent.map(({ detail }) => detail)).toEqual([
      expect.stringContaining('differs from the data that was sent'),
      expect.stringContaining('sig is not the HMAC-SHA256'),
    ]);
  });

  it('do not include identical re-sends of a valid message', async () => {
    const { site, link, gateway } = await setScene({ gateway: 'connected' });
    const message = telemetryMessage(gateway, '{"a":1}');
    for (let count = 0; count < 3; count++) await publish(link, message);
    expect(await site.diagnostics(gateway.id)).toMatchObject({ drops: {}, recent: [] });
  });

  it('are kept across evictions, the last hundred of them, and the count includes all [C-3.8]', async () => {
    const { plant, site, link, gateway } = await setScene({ gateway: 'connected' });
    let sent = 0;
    for (const count of [KEPT - 1, 2, KEPT, 3, 2 * KEPT + 7]) {
      await sendMalformed(link, sent, count);
      sent += count;
      await evictSite(plant.id);
      const { drops, recent } = await site.diagnostics(gateway.id);
      expect(drops).toEqual({ MALFORMED: sent });
      expect(recent).toHaveLength(Math.min(sent, KEPT));
    }
    expect(await rowsOf(plant.id, 'SELECT slot FROM recent_drop')).toHaveLength(KEPT);
  });

  it('are all counted, even more than a hundred of one batch, and the last hundred are kept', async () => {
    const { site, link, gateway } = await setScene({ gateway: 'connected' });
    const stray = (index: number) =>
      ({ kind: 'foreign-topic', act: 'publish', topic: `topic/${index}` }) as const;
    link.send(...Array.from({ length: KEPT + 20 }, (_none, index) => stray(index)));
    await sendAck(link, gateway, 'none', 'RECEIVED');
    const { drops, recent } = await site.diagnostics(gateway.id);
    expect(drops).toEqual({ TOPIC: KEPT + 20 });
    expect(recent.map(({ topic }) => topic.replace('topic/', ''))).toEqual(down(KEPT + 19, KEPT));
  });

  it('include publishes and subscriptions to topics of other devices, with the reason TOPIC [C-3.8]', async () => {
    const { site, link, gateway } = await setScene({ gateway: 'connected' });
    link.send({ kind: 'foreign-topic', act: 'publish', topic: 'cpi/other/telemetry' });
    link.send({ kind: 'foreign-topic', act: 'subscribe', topic: '#' });
    await sendAck(link, gateway, 'none', 'RECEIVED');
    const { drops, recent } = await site.diagnostics(gateway.id);
    expect(drops).toEqual({ TOPIC: 2 });
    expect(recent).toMatchObject([
      {
        topic: '#',
        reason: 'TOPIC',
        detail: expect.stringContaining(`may only subscribe to cpi/${gateway.id}/commands`),
      },
      {
        topic: 'cpi/other/telemetry',
        reason: 'TOPIC',
        detail: expect.stringContaining(`cpi/${gateway.id}/ack`),
      },
    ]);
    expect(await sendTelemetry(link, gateway, { a: 1 })).toBe(true);
  });

  it('do not appear for another device', async () => {
    const { organization, plant, site, link, gateway } = await setScene({ gateway: 'connected' });
    const other = await createDevice(organization, plant.id, 'SENSOR');
    await publish(link, 'hello');
    expect(await site.diagnostics(other.id)).toMatchObject({ drops: {}, recent: [], connects: [] });
    expect((await site.diagnostics(gateway.id)).recent).toHaveLength(1);
  });

  it('do not prove a secret if they are malformed, and are not stored in the journal', async () => {
    const { plant, link } = await setScene({ gateway: 'connected' });
    await sendMalformed(link, 0, 5);
    expect(await rowsOf(plant.id, 'SELECT last_key_version FROM device')).toEqual([
      { last_key_version: null },
    ]);
    expect(await rowsOf(plant.id, 'SELECT id FROM journal_block')).toEqual([]);
  });
});

describe('logins', () => {
  it('accepted and refused logins are listed newest first, with address and reason [C-3.8]', async () => {
    const { organization, plant, site, gateway } = await setScene({ plant: true });
    await connectTo(plant.id, gateway.id, { address: ADDRESS });
    setClock(START_MS + SECOND);
    await site.noteRefusedLogin(
      gateway.id,
      refusal(organization.id, { address: OTHER_ADDRESS, counts: true }),
    );
    setClock(START_MS + 2 * SECOND);
    await connectTo(plant.id, gateway.id, { address: OTHER_ADDRESS });
    expect((await site.diagnostics(gateway.id)).connects).toEqual([
      { at: formatInstant(START_MS + 2 * SECOND), address: OTHER_ADDRESS, outcome: 'ACCEPTED' },
      {
        at: formatInstant(START_MS + SECOND),
        address: OTHER_ADDRESS,
        outcome: 'REFUSED',
        reason: 'token expired',
      },
      { at: formatInstant(START_MS), address: ADDRESS, outcome: 'ACCEPTED' },
    ]);
  });

  it('the last hundred logins are kept across evictions [C-3.8]', async () => {
    const { scene, plant, site, gateway } = await setScene({ plant: true });
    let sent = 0;
    for (const count of [KEPT - 1, 2, KEPT + 9]) {
      await refuseLogins(scene, sent, count);
      sent += count;
      await evictSite(plant.id);
      const { connects } = await site.diagnostics(gateway.id);
      expect(connects.map(({ reason }) => reason)).toEqual(down(sent - 1, Math.min(sent, KEPT)));
    }
  });

  it('an uncounted refused login with the address and reason of the last one is stored once a minute', async () => {
    const { organization, plant, site, gateway } = await setScene({ plant: true });
    const refuse = async (changes = {}) =>
      await site.noteRefusedLogin(gateway.id, refusal(organization.id, changes));
    const written = async () => (await rowsOf(plant.id, 'SELECT slot FROM recent_connect')).length;
    await refuse();
    const { rowsWritten } = await site.diagnostics(gateway.id);
    for (const atMs of [0, SECOND, MINUTE - 1]) {
      setClock(START_MS + atMs);
      await refuse();
    }
    expect((await site.diagnostics(gateway.id)).rowsWritten).toBe(rowsWritten);
    expect(await written()).toBe(1);
    setClock(START_MS + MINUTE);
    await refuse();
    expect(await written()).toBe(2);
    await refuse({ address: OTHER_ADDRESS });
    await refuse({ address: OTHER_ADDRESS, reason: 'not a token' });
    expect(await written()).toBe(4);
  });

  it('every refused login that counts toward a suspension is stored, even if it repeats the last one [C-3.11]', async () => {
    const { organization, site, gateway } = await setScene({ plant: true });
    for (let count = 0; count < 5; count++)
      await site.noteRefusedLogin(gateway.id, refusal(organization.id, { counts: true }));
    expect((await site.diagnostics(gateway.id)).connects).toHaveLength(5);
  });

  it('a refused login is stored again if an accepted one came after the same refusal', async () => {
    const { organization, plant, site, gateway } = await setScene({ plant: true });
    const refuse = () => site.noteRefusedLogin(gateway.id, refusal(organization.id));
    await refuse();
    await connectTo(plant.id, gateway.id, { address: ADDRESS });
    await refuse();
    const { connects } = await site.diagnostics(gateway.id);
    expect(connects.map(({ outcome }) => outcome)).toEqual(['REFUSED', 'ACCEPTED', 'REFUSED']);
  });

  it('a login for a device that is not in this site gets 503, and nothing is stored', async () => {
    const { organization, plant, site } = await setScene({ plant: true });
    const unknown = crypto.randomUUID();
    await site.noteRefusedLogin(unknown, refusal(organization.id, { counts: true }));
    expect((await dialSite(plant.id, unknown)).status).toBe(503);
    expect((await site.diagnostics(unknown)).connects).toEqual([]);
    expect(await rowsOf(plant.id, 'SELECT slot FROM recent_connect')).toEqual([]);
  });
});
