/**
 * The secrets of a device over time: which are valid, until when, and which one signs the commands to the
 * device [C-3.3], [C-3.7].
 */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { setScene } from '#workerd/scene.ts';
import { HOUR, MINUTE, passTime, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  answerPings,
  commandsOf,
  connectListening,
  connectTo,
  nthCommand,
  type ReceivedCommand,
} from '#workerd/site-devices.ts';
import { evictSite, numberOf, rowsOf, untilRegistered } from '#workerd/site-rows.ts';
import { ackWith, isSignedWith, type SecretForm } from '#workerd/site-secrets.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createDevice, randomHex } from '#workerd/world.ts';
import { SecretBox } from '../../../../durable-objects/secrets/secret-box.ts';

const FORMS = ['text', 'bytes'] as const;
const SECRETS = 'SELECT count(*) FROM device_secret';

/** A gateway that is connected and has not signed anything yet. */
async function newSilentSite() {
  const { scene, plant, gateway, site } = await setScene({ plant: true });
  await answerPings(plant.id);
  const link = await connectTo(plant.id, gateway.id);
  link.send({ kind: 'subscribed', commands: true });
  let commandCount = 0;
  return {
    ...scene,
    link,
    old: gateway.hmacSecret,
    /** Rotates the secret of the gateway. Returns the new secret. */
    rotate: async (): Promise<string> => {
      const secret = randomHex(32);
      expect(await site.rotateSecret(gateway.id, secret)).toBeDefined();
      return secret;
    },
    /** Whether a message with this signature is accepted. */
    takes: (secret: string, form: SecretForm = 'text') => ackWith(plant.id, link, gateway.id, secret, form),
    /** The next command that the gateway receives. */
    command: async (): Promise<ReceivedCommand> => {
      commandCount += 1;
      // Commands that the device does not acknowledge come again when it proves another secret.
      const at = commandCount + 0.5;
      const asked = { action: 'PING', payload: { at }, validUntilMs: null, idempotencyKey: null };
      expect(await site.submitRestCommand(gateway.id, asked)).toHaveProperty('command');
      return await vi.waitFor(() => {
        const sent = commandsOf(link).find(({ payload }) => payload.at === at);
        if (!sent) throw new Error('the command has not arrived');
        return sent;
      });
    },
  };
}

describe('a rotated secret', () => {
  it('the previous secret is valid for 60 minutes next to the new one, each in both key forms [C-3.3, C-3.7]', async () => {
    const { takes, rotate, old } = await newSilentSite();
    const next = await rotate();
    for (const atMs of [0, HOUR - 1]) {
      setClock(START_MS + atMs);
      for (const secret of [old, next])
        for (const form of FORMS) expect(await takes(secret, form)).toBe(true);
    }
  });

  it('the previous secret is invalid after 60 minutes, even if the alarm is late, and the new one stays valid [rule 6]', async () => {
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

  it('a rotation returns the end of the grace period, and the registry receives it [C-3.1]', async () => {
    const { plant, gateway, site } = await newSilentSite();
    const rotated = await site.rotateSecret(gateway.id, randomHex(32));
    expect(rotated).toMatchObject({ rotatedAtMs: START_MS, graceUntilMs: START_MS + HOUR });
    await passTime(plant.id, MINUTE);
    await untilRegistered('devices', gateway.id, { hmac_grace_until_ms: START_MS + HOUR });
  });

  it('both secrets and the end of the grace period survive an eviction', async () => {
    const { plant, takes, rotate, old } = await newSilentSite();
    const next = await rotate();
    await evictSite(plant.id);
    setClock(START_MS + HOUR - 1);
    expect([await takes(old), await takes(next), await takes(randomHex(32))]).toEqual([true, true, false]);
    await evictSite(plant.id);
    setClock(START_MS + HOUR);
    expect([await takes(old), await takes(next)]).toEqual([false, true]);
  });

  it('the previous secret is deleted at the end of the grace period, also after an eviction', async () => {
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

  it('the next rotation invalidates an unused oldest secret immediately, and starts a new grace period of 60 minutes [C-3.3]', async () => {
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

  it('the secret that the device used last keeps its 60 minutes, however many are issued since [C-3.3]', async () => {
    const { plant, takes, rotate, old } = await newSilentSite();
    expect(await takes(old)).toBe(true);
    const second = await rotate();
    setClock(START_MS + 30 * MINUTE);
    const [third, fourth] = [await rotate(), await rotate()];
    await evictSite(plant.id);
    expect([await takes(old), await takes(second)]).toEqual([true, false]);
    expect(await numberOf(plant.id, SECRETS)).toBe(3);
    setClock(START_MS + HOUR - 1);
    expect(await takes(old)).toBe(true);
    setClock(START_MS + HOUR);
    expect([await takes(old), await takes(third), await takes(fourth)]).toEqual([false, true, true]);
  });

  it('is the newest if it is the later of two rotations in one millisecond', async () => {
    const { takes, rotate, old, command, gateway } = await newSilentSite();
    const [second, third] = [await rotate(), await rotate()];
    expect(isSignedWith(gateway.id, await command(), third)).toBe(true);
    expect([await takes(old), await takes(second), await takes(third)]).toEqual([false, true, true]);
  });

  it('an expired secret stays invalid when the Worker registers the device at the Site with it again', async () => {
    const { plant, gateway, site, takes, rotate, old } = await newSilentSite();
    const next = await rotate();
    const grant = { siteId: plant.id, plantId: plant.id, deviceId: gateway.id, type: 'GATEWAY' as const };
    setClock(START_MS + HOUR);
    for (const version of [1, START_MS]) await site.adoptDevice({ ...grant, hmacSecret: old, version });
    expect([await takes(old), await takes(next)]).toEqual([false, true]);
  });

  it('the previous and the new secret are stored encrypted', async () => {
    const { plant, rotate, old } = await newSilentSite();
    const next = await rotate();
    const rows = await rowsOf<{ sealed: string }>(plant.id, 'SELECT sealed FROM device_secret');
    expect(rows).toHaveLength(2);
    for (const { sealed } of rows) for (const secret of [old, next]) expect(sealed).not.toContain(secret);
  });
});

describe('a device that connects with another secret than its commands are signed with', () => {
  it('gets what it has not acknowledged again after its first message, and once a session [C-3.7]', async () => {
    const { plant, gateway, site, rotate, takes, old } = await newSilentSite();
    expect(await takes(old)).toBe(true);
    const next = await rotate();
    const link = await connectTo(plant.id, gateway.id);
    link.send({ kind: 'subscribed', commands: true });
    await site.submitRestCommand(gateway.id, {
      action: 'PING',
      payload: {},
      validUntilMs: null,
      idempotencyKey: null,
    });
    const sent = await nthCommand(link, 1);
    expect(isSignedWith(gateway.id, sent, old)).toBe(true);
    expect(await ackWith(plant.id, link, gateway.id, next, 'text')).toBe(true);
    const again = await nthCommand(link, 2);
    expect(again.cmdId).toBe(sent.cmdId);
    expect(isSignedWith(gateway.id, again, next)).toBe(true);
    for (const secret of [old, next, old])
      expect(await ackWith(plant.id, link, gateway.id, secret, 'text')).toBe(true);
    expect(commandsOf(link)).toHaveLength(2);
  });
});

describe('the signature of a command to the device', () => {
  it('a command is signed with the newest secret, as text, if the device has proved none [C-3.7]', async () => {
    const { gateway, rotate, command, old } = await newSilentSite();
    expect(isSignedWith(gateway.id, await command(), old)).toBe(true);
    expect(isSignedWith(gateway.id, await command(), await rotate())).toBe(false);
    const next = await rotate();
    expect(isSignedWith(gateway.id, await command(), next)).toBe(true);
  });

  it.each(FORMS)(
    'a command is signed with the valid secret that the device proved last, in that key form (%s) [C-3.7]',
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

  it('a command is signed in the key form in which the device last proved that secret', async () => {
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

  it('a command is signed with the newest secret after the grace period, even if the device proved the previous one [C-3.7]', async () => {
    const { gateway, rotate, command, takes, old } = await newSilentSite();
    const next = await rotate();
    setClock(START_MS + HOUR - 1);
    await takes(old, 'bytes');
    expect(isSignedWith(gateway.id, await command(), old, 'bytes')).toBe(true);
    setClock(START_MS + HOUR);
    // Any frame of the device counts as a sign of life; without one for a minute the device would not be
    // live.
    expect(await takes(old, 'bytes')).toBe(false);
    expect(isSignedWith(gateway.id, await command(), next, 'text')).toBe(true);
  });

  it('a message with an invalid signature does not change the secret that signs commands', async () => {
    const { gateway, command, takes, old } = await newSilentSite();
    const foreign = randomHex(32);
    expect(await takes(foreign)).toBe(false);
    expect(isSignedWith(gateway.id, await command(), old)).toBe(true);
  });
});

describe('devices whose secret is not rotated', () => {
  it('the secret of a device that is not in this site is not rotated', async () => {
    const { organization, plant, site } = await newSilentSite();
    const elsewhere = await createDevice(organization, null, 'SENSOR');
    expect(await site.rotateSecret(elsewhere.id, randomHex(32))).toBeUndefined();
    expect(await site.rotateSecret(crypto.randomUUID(), randomHex(32))).toBeUndefined();
    expect(await numberOf(plant.id, SECRETS)).toBe(1);
  });

  it.each(['SUSPENDED', 'DECOMMISSIONED'] as const)(
    'the secret of a %s device is not rotated [C-3.3]',
    async (status) => {
      const { plant, gateway, site } = await newSilentSite();
      await site.setDeviceStatus(gateway.id, status);
      expect(await site.rotateSecret(gateway.id, randomHex(32))).toBeUndefined();
      expect(await numberOf(plant.id, SECRETS)).toBe(status === 'SUSPENDED' ? 1 : 0);
    },
  );

  it('the grace period of an earlier rotation ends while the device is suspended', async () => {
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

describe('a secret that an older data key sealed', () => {
  it('is sealed with the newest key at the next alarm of its site, and is valid as before [C-14.7]', async () => {
    const { plant, gateway, takes, old } = await newSilentSite();
    const sealed = new SecretBox(env.DATA_KEYS.split(',')[1] ?? '').seal(`device:${gateway.id}`, old);
    await rowsOf(plant.id, `UPDATE device_secret SET sealed = '${sealed}'`);
    await evictSite(plant.id);
    await passTime(plant.id, MINUTE);
    const rows = await rowsOf<{ sealed: string }>(plant.id, 'SELECT sealed FROM device_secret');
    expect(rows.map((row) => row.sealed.split('.')[0])).toEqual(['2']);
    expect(await takes(old)).toBe(true);
  });
});
