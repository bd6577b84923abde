/** Secrets of a device in turn: which are good, until when, and which of them commands to it are signed with [C-3.3], [C-3.7]. */
import { describe, expect, it } from 'vitest';
import { HOUR, holdClock, MINUTE, passTime, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  answerPings,
  connectListening,
  connectTo,
  nthCommand,
  type ReceivedCommand,
} from '#workerd/site-devices.ts';
import { evictSite, numberOf, rowsOf, untilRegistered } from '#workerd/site-rows.ts';
import { newSite } from '#workerd/site-scenes.ts';
import { ackWith, isSignedWith, type SecretForm } from '#workerd/site-secrets.ts';
import { createDevice, randomHex } from '#workerd/world.ts';

holdClock();

const FORMS = ['text', 'bytes'] as const;
const SECRETS = 'SELECT count(*) FROM device_secret';

/** A gateway that is connected and has signed nothing yet. */
async function newSilentSite() {
  const scene = await newSite();
  const { plant, gateway, site } = scene;
  await answerPings(plant.id);
  const link = await connectTo(plant.id, gateway.id);
  link.send({ kind: 'subscribed', commands: true });
  let told = 0;
  return {
    ...scene,
    link,
    old: gateway.hmacSecret,
    /** Gives it another secret, which is returned. */
    rotate: async (): Promise<string> => {
      const secret = randomHex(32);
      expect(await site.rotateSecret(gateway.id, secret)).toBeDefined();
      return secret;
    },
    /** Whether a message that is signed so is taken. */
    takes: (secret: string, form: SecretForm = 'text') => ackWith(plant.id, link, gateway.id, secret, form),
    /** The next command that it is sent. */
    command: async (): Promise<ReceivedCommand> => {
      const asked = { action: 'PING', payload: { at: 1.5 }, validUntilMs: null, idempotencyKey: null };
      expect(await site.submitRestCommand(gateway.id, asked)).toHaveProperty('command');
      told += 1;
      return await nthCommand(link, told);
    },
  };
}

describe('a secret that was rotated', () => {
  it('is good beside the new one for 60 minutes, each in both of its forms [C-3.3, C-3.7]', async () => {
    const { takes, rotate, old } = await newSilentSite();
    const next = await rotate();
    for (const atMs of [0, HOUR - 1]) {
      setClock(START_MS + atMs);
      for (const secret of [old, next])
        for (const form of FORMS) expect(await takes(secret, form)).toBe(true);
    }
  });

  it('is refused from the 60th minute on, even where the alarm is late; the new one stays good [rule 6]', async () => {
    const { takes, rotate, old } = await newSilentSite();
    const next = await rotate();
    setClock(START_MS + HOUR);
    for (const form of FORMS) {
      expect(await takes(old, form)).toBe(false);
      expect(await takes(next, form)).toBe(true);
    }
    setClock(START_MS + 100 * HOUR);
    expect(await takes(next)).toBe(true);
  });

  it('answers when it ends, and the registry is told [C-3.1]', async () => {
    const { plant, gateway, site } = await newSilentSite();
    const rotated = await site.rotateSecret(gateway.id, randomHex(32));
    expect(rotated).toMatchObject({ rotatedAtMs: START_MS, graceUntilMs: START_MS + HOUR });
    await passTime(plant.id, MINUTE);
    await untilRegistered('devices', gateway.id, { hmac_grace_until_ms: START_MS + HOUR });
  });

  it('over an eviction is as good as before', async () => {
    const { plant, takes, rotate, old } = await newSilentSite();
    const next = await rotate();
    await evictSite(plant.id);
    setClock(START_MS + HOUR - 1);
    expect([await takes(old), await takes(next), await takes(randomHex(32))]).toEqual([true, true, false]);
    await evictSite(plant.id);
    setClock(START_MS + HOUR);
    expect([await takes(old), await takes(next)]).toEqual([false, true]);
  });

  it('leaves the object at its end, also where that was evicted meanwhile', async () => {
    for (const isEvicted of [false, true]) {
      const { plant, rotate } = await newSilentSite();
      await rotate();
      if (isEvicted) await evictSite(plant.id);
      await passTime(plant.id, HOUR - 1);
      expect(await numberOf(plant.id, SECRETS)).toBe(2);
      if (isEvicted) await evictSite(plant.id);
      await passTime(plant.id, 1);
      expect(await numberOf(plant.id, SECRETS)).toBe(1);
      await passTime(plant.id, HOUR);
      expect(await numberOf(plant.id, SECRETS)).toBe(1);
      setClock(START_MS);
    }
  });

  it('ends at once when the next one is rotated too; that one has its own 60 minutes [C-3.3]', async () => {
    const { plant, takes, rotate, old } = await newSilentSite();
    const second = await rotate();
    setClock(START_MS + 30 * MINUTE);
    const third = await rotate();
    expect([await takes(old), await takes(second), await takes(third)]).toEqual([false, true, true]);
    expect(await numberOf(plant.id, SECRETS)).toBe(2);
    setClock(START_MS + 90 * MINUTE - 1);
    expect([await takes(second), await takes(third)]).toEqual([true, true]);
    setClock(START_MS + 90 * MINUTE);
    expect([await takes(second), await takes(third)]).toEqual([false, true]);
  });

  it('twice in one millisecond has the later one as the newest', async () => {
    const { takes, rotate, old, command, gateway } = await newSilentSite();
    const [second, third] = [await rotate(), await rotate()];
    expect(isSignedWith(gateway.id, await command(), third)).toBe(true);
    expect([await takes(old), await takes(second), await takes(third)]).toEqual([false, true, true]);
  });

  it('does not come back with the grant that it came with', async () => {
    const { plant, gateway, site, takes, rotate, old } = await newSilentSite();
    const next = await rotate();
    const grant = { siteId: plant.id, plantId: plant.id, deviceId: gateway.id, type: 'GATEWAY' as const };
    setClock(START_MS + HOUR);
    await site.adoptDevice({ ...grant, hmacSecret: old });
    await site.adoptDevice({ ...grant, hmacSecret: old, version: START_MS });
    expect([await takes(old), await takes(next)]).toEqual([false, true]);
  });

  it('is stored sealed, and so is the new one', async () => {
    const { plant, rotate, old } = await newSilentSite();
    const next = await rotate();
    const rows = await rowsOf<{ sealed: string }>(plant.id, 'SELECT sealed FROM device_secret');
    expect(rows).toHaveLength(2);
    for (const { sealed } of rows) for (const secret of [old, next]) expect(sealed).not.toContain(secret);
  });
});

describe('a command to the device is signed', () => {
  it('with the newest secret, as text, where it proved none [C-3.7]', async () => {
    const { gateway, rotate, command, old } = await newSilentSite();
    expect(isSignedWith(gateway.id, await command(), old)).toBe(true);
    expect(isSignedWith(gateway.id, await command(), await rotate())).toBe(false);
    const next = await rotate();
    expect(isSignedWith(gateway.id, await command(), next)).toBe(true);
  });

  it.each(FORMS)(
    'with the secret that it proved last, in that form (%s), while it lives [C-3.7]',
    async (form) => {
      const { plant, gateway, rotate, command, takes, old } = await newSilentSite();
      await takes(old, form);
      const next = await rotate();
      expect(isSignedWith(gateway.id, await command(), old, form)).toBe(true);
      await evictSite(plant.id);
      expect(isSignedWith(gateway.id, await command(), old, form)).toBe(true);
      await takes(next, form);
      expect(isSignedWith(gateway.id, await command(), next, form)).toBe(true);
      await takes(old, form);
      expect(isSignedWith(gateway.id, await command(), old, form)).toBe(true);
      await evictSite(plant.id);
      expect(isSignedWith(gateway.id, await command(), old, form)).toBe(true);
    },
  );

  it('in the form in which each was proved, not in that of the other', async () => {
    const { gateway, rotate, command, takes, old } = await newSilentSite();
    await takes(old, 'bytes');
    const next = await rotate();
    await takes(next, 'text');
    expect(isSignedWith(gateway.id, await command(), next, 'text')).toBe(true);
    await takes(old, 'bytes');
    expect(isSignedWith(gateway.id, await command(), old, 'bytes')).toBe(true);
    await takes(old, 'text');
    expect(isSignedWith(gateway.id, await command(), old, 'text')).toBe(true);
  });

  it('with the newest from the end of the grace on, if it still proves the old one then [C-3.7]', async () => {
    const { gateway, rotate, command, takes, old } = await newSilentSite();
    const next = await rotate();
    setClock(START_MS + HOUR - 1);
    await takes(old, 'bytes');
    expect(isSignedWith(gateway.id, await command(), old, 'bytes')).toBe(true);
    setClock(START_MS + HOUR);
    // A frame of it, whatever it is: without one for a minute it is not live.
    expect(await takes(old, 'bytes')).toBe(false);
    expect(isSignedWith(gateway.id, await command(), next, 'text')).toBe(true);
  });

  it('with nothing that a message which does not hold was signed with', async () => {
    const { gateway, command, takes, old } = await newSilentSite();
    const foreign = randomHex(32);
    expect(await takes(foreign)).toBe(false);
    expect(isSignedWith(gateway.id, await command(), old)).toBe(true);
  });
});

describe('no secret is rotated', () => {
  it('of a device that is not here', async () => {
    const { organization, plant, site } = await newSilentSite();
    const elsewhere = await createDevice(organization, null, 'SENSOR');
    expect(await site.rotateSecret(elsewhere.id, randomHex(32))).toBeUndefined();
    expect(await site.rotateSecret(crypto.randomUUID(), randomHex(32))).toBeUndefined();
    expect(await numberOf(plant.id, SECRETS)).toBe(1);
  });

  it.each(['SUSPENDED', 'DECOMMISSIONED'] as const)('of a %s device [C-3.3]', async (status) => {
    const { plant, gateway, site } = await newSilentSite();
    await site.setDeviceStatus(gateway.id, status);
    expect(await site.rotateSecret(gateway.id, randomHex(32))).toBeUndefined();
    expect(await numberOf(plant.id, SECRETS)).toBe(status === 'SUSPENDED' ? 1 : 0);
  });

  it('while it is suspended, and the grace of one before ends all the same', async () => {
    const { plant, gateway, site, rotate, old } = await newSilentSite();
    const next = await rotate();
    await site.setDeviceStatus(gateway.id, 'SUSPENDED');
    await passTime(plant.id, HOUR);
    await site.setDeviceStatus(gateway.id, 'ACTIVE');
    const link = await connectListening(plant, { id: gateway.id, hmacSecret: next });
    expect(await ackWith(plant.id, link, gateway.id, next)).toBe(true);
    expect(await ackWith(plant.id, link, gateway.id, old)).toBe(false);
  });
});
