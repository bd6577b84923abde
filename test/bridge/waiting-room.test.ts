/** Connections without a login: limited per network and in total; one more closes the oldest [C-14.6]. */
import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { bridgeTest, OTHER_ADDRESS } from '#support/bridge-whole.ts';
import { type Waiting, WaitingRoom } from '../../bridge/waiting-room.ts';
import { LIMIT } from '../../protocol/limits.ts';

/** A connection that records whether it was destroyed. */
class TestSocket extends EventEmitter {
  isDestroyed = false;

  destroy(): void {
    this.isDestroyed = true;
    this.emit('close');
  }
}

function enter(room: WaitingRoom, address: string): { socket: TestSocket } & Waiting {
  const socket = new TestSocket();
  return { socket, ...room.enter(socket as unknown as Socket, address) };
}

function enterMany(room: WaitingRoom, count: number, addressOf: (index: number) => string): TestSocket[] {
  return Array.from({ length: count }, (_none, index) => enter(room, addressOf(index)).socket);
}

const nth = (index: number) => `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`;

describe('a waiting room', () => {
  it('closes the oldest silent connection of a network for one more, and none of another network [C-14.6]', () => {
    const closed: string[] = [];
    const room = new WaitingRoom((address) => closed.push(address));
    const other = enter(room, '198.51.100.1').socket;
    const own = enterMany(room, LIMIT.silentConnectionsPerNetwork, () => '192.0.2.1');
    expect(own.some(({ isDestroyed }) => isDestroyed)).toBe(false);
    enterMany(room, 2, () => '192.0.2.1');
    expect(own.map(({ isDestroyed }) => isDestroyed).slice(0, 3)).toEqual([true, true, false]);
    expect([other.isDestroyed, room.size]).toEqual([false, LIMIT.silentConnectionsPerNetwork + 1]);
    expect(closed).toEqual(['192.0.2.1', '192.0.2.1']);
  });

  it('counts all addresses of an IPv6 /64 as one network [C-14.6]', () => {
    const room = new WaitingRoom();
    enterMany(room, 2 * LIMIT.silentConnectionsPerNetwork, (index) => `2001:db8::${index.toString(16)}`);
    expect(room.size).toBe(LIMIT.silentConnectionsPerNetwork);
  });

  it('closes the oldest connection of all if all networks together have too many [C-14.6]', () => {
    const room = new WaitingRoom();
    const sockets = enterMany(room, LIMIT.silentConnections + 10, nth);
    expect(sockets.filter(({ isDestroyed }) => isDestroyed)).toEqual(sockets.slice(0, 10));
    expect(room.size).toBe(LIMIT.silentConnections);
  });

  it('closes the oldest connection with TLS if too many have TLS, and none without TLS [C-14.6]', () => {
    const room = new WaitingRoom();
    const plain = enterMany(room, 10, nth);
    const secure = Array.from({ length: LIMIT.silentTlsConnections + 7 }, (_none, index) => {
      const one = enter(room, nth(1_000 + index));
      one.hasTls();
      return one;
    });
    expect(secure.map(({ socket }) => socket.isDestroyed).indexOf(false)).toBe(7);
    expect(plain.some(({ isDestroyed }) => isDestroyed)).toBe(false);
    // After one has logged in, another may have TLS.
    secure.at(-1)?.hasLogin();
    enter(room, nth(1)).hasTls();
    expect(secure[7]?.socket.isDestroyed).toBe(false);
    expect(room.size).toBe(10 + LIMIT.silentTlsConnections);
  });

  it('no longer counts or closes a connection that has sent its login or has closed [C-14.6]', () => {
    const room = new WaitingRoom();
    const first = enter(room, '192.0.2.1');
    const second = enter(room, '192.0.2.1');
    first.hasLogin();
    second.socket.destroy();
    expect(room.size).toBe(0);
    enterMany(room, 2 * LIMIT.silentConnectionsPerNetwork, () => '192.0.2.1');
    expect(first.socket.isDestroyed).toBe(false);
  });
});

describe('a bridge with silent clients', () => {
  bridgeTest(
    'accepts a partner and a device, and closes the oldest silent clients [C-14.6]',
    async ({ bridge }) => {
      const silent = await Promise.all(
        Array.from({ length: LIMIT.silentConnectionsPerNetwork + 20 }, () => bridge.stranger()),
      );
      const { peer: device } = await bridge.openDevice();
      const { peer: partner } = await bridge.openPartner();
      await expect
        .poll(() => silent.filter(({ stream }) => stream.destroyed).length)
        .toBeGreaterThanOrEqual(20);
      expect([device.stream.destroyed, partner.stream.destroyed]).toEqual([false, false]);
      const others = await Promise.all([bridge.partner({}, OTHER_ADDRESS), bridge.stranger()]);
      expect(others[0].stream.destroyed).toBe(false);
    },
  );

  bridgeTest('keeps clients that have logged in, however many more connect [C-14.6]', async ({ bridge }) => {
    const { peer } = await bridge.openDevice();
    for (let round = 0; round < 3; round++)
      await Promise.all(Array.from({ length: LIMIT.silentConnectionsPerNetwork }, () => bridge.stranger()));
    expect(peer.stream.destroyed).toBe(false);
  });
});
