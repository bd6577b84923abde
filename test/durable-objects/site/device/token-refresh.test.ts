/**
 * New tokens for connected devices: when a token is pushed, its content, and the number of tries [C-3.12].
 */
import { env } from 'cloudflare:workers';
import type { DeviceTestLink } from '#workerd/links.ts';
import { setScene } from '#workerd/scene.ts';
import { alarmAt, HOUR, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  answerPings,
  commandsOf,
  connectListening,
  connectTo,
  nthCommand,
  type ReceivedCommand,
  sendAck,
  subscribe,
} from '#workerd/site-devices.ts';
import { readCommands } from '#workerd/site-reads.ts';
import { evictSite, numberOf, untilRegistered } from '#workerd/site-rows.ts';
import { isSignedWith } from '#workerd/site-secrets.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createDevice } from '#workerd/world.ts';
import { verifyDeviceToken } from '../../../../durable-objects/secrets/device-tokens.ts';
import { CLOSE_CODES } from '../../../../protocol/link/live.ts';

const LIFE_MS = HOUR;
const DUE_MS = 0.8 * LIFE_MS;
/** The time between tries: a third of the token's remaining life. */
const AGAIN_MS = 4 * MINUTE;
const TOKEN = { issuedAtMs: START_MS, expiresAtMs: START_MS + LIFE_MS };

/**
 * A gateway that answers pings and is subscribed, in a session of the given token or, without times, of a
 * certificate.
 */
async function newTokenSite(token: Parameters<typeof connectTo>[2] = TOKEN) {
  const scene = await setScene({ plant: true });
  await answerPings(scene.plant.id);
  return { ...scene, link: await connectListening(scene.plant, scene.gateway, token) };
}

/**
 * All tokens that a link has received so far. Signing is asynchronous, so the helper waits for the expected
 * number.
 */
async function tokensOf(siteId: string, link: DeviceTestLink, expected: number): Promise<ReceivedCommand[]> {
  const refreshes = () => commandsOf(link).filter(({ action }) => action === 'TOKEN_REFRESH');
  for (let looks = 0; looks < 200 && refreshes().length < expected; looks++) await alarmAt(siteId);
  for (let looks = 0; looks < 20; looks++) await alarmAt(siteId);
  return refreshes();
}

async function expectTokens(siteId: string, link: DeviceTestLink, expected: number): Promise<void> {
  expect(await tokensOf(siteId, link, expected)).toHaveLength(expected);
}

async function expectTokensAfter(
  durationMs: number,
  siteId: string,
  link: DeviceTestLink,
  expected: number,
): Promise<void> {
  await passTime(siteId, durationMs);
  await expectTokens(siteId, link, expected);
}

describe('a token at 80 % of its life', () => {
  it("at 80 % of a token's life, and not before, a signed and valid token of the same life is pushed [C-3.12]", async () => {
    const { plant, gateway, link } = await newTokenSite();
    await expectTokensAfter(DUE_MS - 1, plant.id, link, 0);
    await passTime(plant.id, 1);
    const command = await nthCommand(link, 1);
    expect(command.action).toBe('TOKEN_REFRESH');
    expect(command.ts).toBe(START_MS + DUE_MS);
    expect(isSignedWith(gateway.id, command, gateway.hmacSecret)).toBe(true);
    const { token, expiresAt, ...rest } = command.payload;
    expect(rest).toEqual({});
    const verdict = await verifyDeviceToken(env.TOKEN_KEYS, String(token));
    const expiresAtMs = START_MS + DUE_MS + LIFE_MS;
    const issued = { deviceId: gateway.id, issuedAtMs: START_MS + DUE_MS, expiresAtMs };
    expect(verdict).toEqual({ ok: true, token: issued });
    expect(Date.parse(String(expiresAt))).toBe(expiresAtMs);
    await passTime(plant.id, SECOND);
    await untilRegistered('devices', gateway.id, { token_expires_at_ms: expiresAtMs });
  });

  it.each([60 * SECOND, 24 * HOUR])(
    'a device whose token is valid for %d ms gets a token that is valid as long after 80 % of that time',
    async (lifeMs) => {
      const { plant, link } = await newTokenSite({ issuedAtMs: START_MS, expiresAtMs: START_MS + lifeMs });
      setClock(START_MS + 0.8 * lifeMs - SECOND);
      await passTime(plant.id, SECOND);
      const { payload } = await nthCommand(link, 1);
      const verdict = await verifyDeviceToken(env.TOKEN_KEYS, String(payload.token));
      expect(verdict).toMatchObject({ ok: true, token: { expiresAtMs: START_MS + 1.8 * lifeMs } });
    },
  );

  it('the life counts from the issue: a device that connects after 80 % gets a new token immediately', async () => {
    const token = { issuedAtMs: START_MS - 50 * MINUTE, expiresAtMs: START_MS + 10 * MINUTE };
    const { plant, link } = await newTokenSite(token);
    await expectTokensAfter(SECOND, plant.id, link, 1);
  });

  it('each device gets its new token at the time of its own token', async () => {
    const { organization, plant, link } = await newTokenSite();
    const other = await createDevice(organization, plant.id, 'SENSOR');
    const token = { issuedAtMs: START_MS, expiresAtMs: START_MS + 2 * LIFE_MS };
    const otherLink = await connectListening(plant, other, token);
    await expectTokensAfter(DUE_MS, plant.id, link, 1);
    await expectTokens(plant.id, otherLink, 0);
    await passTime(plant.id, DUE_MS);
    const [command] = await tokensOf(plant.id, otherLink, 1);
    const verdict = await verifyDeviceToken(env.TOKEN_KEYS, String(command?.payload.token));
    expect(verdict).toMatchObject({ ok: true, token: { deviceId: other.id } });
  });
});

describe('a pushed token', () => {
  it.each(['RECEIVED', 'COMPLETED'] as const)(
    'is not pushed again once it was acknowledged %s [C-3.12]',
    async (status) => {
      const { plant, gateway, link } = await newTokenSite();
      await passTime(plant.id, DUE_MS);
      const { cmdId } = await nthCommand(link, 1);
      expect(await sendAck(link, gateway, cmdId, status)).toBe(true);
      await evictSite(plant.id);
      await expectTokensAfter(LIFE_MS - DUE_MS - 1, plant.id, link, 1);
    },
  );

  it('is pushed again once it was acknowledged FAILED, even if it was acknowledged RECEIVED before [C-3.12]', async () => {
    const { plant, gateway, link } = await newTokenSite();
    await passTime(plant.id, DUE_MS);
    const { cmdId } = await nthCommand(link, 1);
    for (const status of ['RECEIVED', 'FAILED'] as const) await sendAck(link, gateway, cmdId, status);
    await evictSite(plant.id);
    await expectTokensAfter(LIFE_MS - DUE_MS - 1, plant.id, link, 3);
  });

  it('is pushed three times in all if it gets no ack, each time as a new token with a new cmdId [C-3.12]', async () => {
    const { plant, link } = await newTokenSite();
    await passTime(plant.id, DUE_MS);
    for (const count of [1, 2, 3]) {
      await expectTokens(plant.id, link, count);
      await expectTokensAfter(AGAIN_MS - 1, plant.id, link, count);
      if (count < 3) await passTime(plant.id, 1);
    }
    const sent = await tokensOf(plant.id, link, 3);
    expect(new Set(sent.map(({ cmdId }) => cmdId)).size).toBe(3);
    for (const { payload } of sent)
      expect((await verifyDeviceToken(env.TOKEN_KEYS, String(payload.token))).ok).toBe(true);
    await passTime(plant.id, 1);
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.expired });
  });

  it('is not acknowledged by the ack of another command or of an earlier try', async () => {
    const { plant, gateway, link } = await newTokenSite();
    await passTime(plant.id, DUE_MS);
    const first = await nthCommand(link, 1);
    await sendAck(link, gateway, crypto.randomUUID(), 'COMPLETED');
    await expectTokensAfter(AGAIN_MS, plant.id, link, 2);
    await sendAck(link, gateway, first.cmdId, 'COMPLETED');
    await expectTokensAfter(AGAIN_MS, plant.id, link, 3);
  });

  it('is pushed at the same times, and not after its ack, if the site is evicted between all steps', async () => {
    const { plant, gateway, link } = await newTokenSite();
    await evictSite(plant.id);
    await expectTokensAfter(DUE_MS, plant.id, link, 1);
    await evictSite(plant.id);
    await passTime(plant.id, AGAIN_MS);
    const [, second] = await tokensOf(plant.id, link, 2);
    await evictSite(plant.id);
    await sendAck(link, gateway, second?.cmdId ?? '', 'COMPLETED');
    await evictSite(plant.id);
    await expectTokensAfter(AGAIN_MS, plant.id, link, 2);
  });

  it('is followed by another at 80 % of the life of the token with which the device connects next', async () => {
    const { plant, gateway } = await newTokenSite();
    await passTime(plant.id, DUE_MS);
    const token = { issuedAtMs: START_MS + DUE_MS, expiresAtMs: START_MS + DUE_MS + LIFE_MS };
    const link = await connectListening(plant, gateway, token);
    await expectTokensAfter(DUE_MS - 1, plant.id, link, 0);
    await expectTokensAfter(1, plant.id, link, 1);
  });

  it('is in no list of commands, neither in the command log nor among the REST commands [C-7.10]', async () => {
    const { plant, gateway, site, link } = await newTokenSite();
    await expectTokensAfter(DUE_MS, plant.id, link, 1);
    expect((await readCommands(plant.id)).total).toBe(0);
    expect(await site.pageRestCommands(gateway.id, 1, 10)).toEqual({ commands: [], total: 0 });
    expect(await site.findRestCommand(gateway.id, (await nthCommand(link, 1)).cmdId)).toBeUndefined();
    expect(await numberOf(plant.id, 'SELECT count(*) FROM dispatch')).toBe(0);
  });
});

describe('devices that get no token', () => {
  it('a token is not pushed to a device before it has subscribed [C-3.12]', async () => {
    const { plant, gateway } = await setScene({ plant: true });
    await answerPings(plant.id);
    const link = await connectTo(plant.id, gateway.id, TOKEN);
    await expectTokensAfter(DUE_MS + MINUTE, plant.id, link, 0);
    await subscribe(link, gateway);
    await expectTokensAfter(SECOND, plant.id, link, 1);
  });

  it('a token is not pushed to a device that has unsubscribed or is quiet', async () => {
    const unsubscribed = await newTokenSite();
    unsubscribed.link.send({ kind: 'subscribed', commands: false });
    const quiet = await newTokenSite();
    quiet.link.send({ kind: 'quiet', quiet: true });
    for (const { plant, gateway, link } of [unsubscribed, quiet]) {
      await sendAck(link, gateway, 'none', 'RECEIVED');
      setClock(START_MS);
      await expectTokensAfter(LIFE_MS - 1, plant.id, link, 0);
    }
  });

  it("a token is not pushed to a certificate session, or if the bridge does not report the token's issue time", async () => {
    for (const token of [
      { issuedAtMs: null, expiresAtMs: START_MS + LIFE_MS },
      { expiresAtMs: START_MS + LIFE_MS },
    ]) {
      setClock(START_MS);
      const { plant, link } = await newTokenSite(token);
      await expectTokensAfter(LIFE_MS - 1, plant.id, link, 0);
    }
  });

  it('a token is not pushed to a suspended device', async () => {
    const { plant, gateway, site, link } = await newTokenSite();
    await passTime(plant.id, DUE_MS - 1);
    await site.setDeviceStatus(gateway.id, 'SUSPENDED');
    await expectTokensAfter(LIFE_MS, plant.id, link, 0);
  });
});
