/** The gate before the broker: it follows packets cut anywhere, and stops invalid ones at their header. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  connectPacket,
  DISCONNECT,
  lengthBytes,
  PACKET,
  PINGREQ,
  packet,
  publishPacket,
} from '#support/bridge-mqtt-peer.ts';
import { forAll, forMany } from '#support/property.ts';
import { PacketGate } from '../../../bridge/mqtt/size-gate.ts';
import { LIMIT } from '../../../protocol/limits.ts';

const CONNECT = connectPacket({ username: 'u', password: 'p' });
const REFUSED = { ok: false };

/** Only the header of a packet. */
function announce(type: number, length: number): Buffer {
  return Buffer.concat([Buffer.from([type << 4]), lengthBytes(length)]);
}

/** A gate after a CONNECT. */
function opened(): PacketGate {
  const gate = new PacketGate();
  expect(gate.take(CONNECT)).toEqual({ ok: true });
  return gate;
}

const laterPacket = fc
  .record({
    type: fc.integer({ min: 2, max: 14 }),
    flags: fc.nat(15),
    body: fc.uint8Array({ maxLength: 400 }),
  })
  .map(({ type, flags, body }) => packet(type, flags, Buffer.from(body)));

describe('a packet gate', () => {
  it('passes packets that come in any chunks, and knows when CONNECT is complete', () => {
    forAll(fc.array(laterPacket, { maxLength: 10 }), fc.array(fc.nat(80)), (packets, cuts) => {
      const gate = new PacketGate();
      const whole = Buffer.concat([CONNECT, ...packets]);
      let start = 0;
      for (const cut of [...cuts, whole.length]) {
        expect(gate.take(whole.subarray(start, start + cut))).toEqual({ ok: true });
        start = Math.min(whole.length, start + cut);
        expect(gate.connectDone).toBe(start >= CONNECT.length);
      }
    });
  });

  it('passes packets that come in two chunks, cut at every byte', () => {
    const whole = Buffer.concat([CONNECT, publishPacket('t', Buffer.alloc(300)), PINGREQ, DISCONNECT]);
    for (let at = 0; at <= whole.length; at++) {
      const gate = new PacketGate();
      expect(gate.take(whole.subarray(0, at))).toEqual({ ok: true });
      expect(gate.take(whole.subarray(at))).toEqual({ ok: true });
    }
  });

  it('knows that CONNECT is complete as soon as its last byte arrives', () => {
    const gate = new PacketGate();
    for (const byte of CONNECT.subarray(0, -1)) gate.take(Buffer.from([byte]));
    expect(gate.connectDone).toBe(false);
    gate.take(CONNECT.subarray(-1));
    expect(gate.connectDone).toBe(true);
  });

  it('passes a CONNECT of at most 16 KiB and later packets of at most 128 KiB', () => {
    expect(new PacketGate().take(announce(PACKET.connect, LIMIT.mqttConnectBytes))).toEqual({ ok: true });
    expect(new PacketGate().take(announce(PACKET.connect, LIMIT.mqttConnectBytes + 1))).toMatchObject(
      REFUSED,
    );
    expect(opened().take(announce(PACKET.publish, LIMIT.mqttPacketBytes))).toEqual({ ok: true });
    expect(opened().take(announce(PACKET.publish, LIMIT.mqttPacketBytes + 1))).toEqual({
      ok: false,
      why: 'packet of 131073 bytes exceeds the limit of 131072',
      bytes: 131_073,
    });
  });

  it('stops a first packet that announces 256 MB at its header', () => {
    for (const type of [PACKET.connect, PACKET.publish]) {
      const gate = new PacketGate();
      const verdicts = [...announce(type, 268_435_455)].map((byte) => gate.take(Buffer.from([byte])));
      expect(verdicts.filter(({ ok }) => !ok).length).toBeGreaterThan(0);
    }
  });

  it('stops an overlong packet whose header is in the chunk that ends the previous one', () => {
    const gate = new PacketGate();
    gate.take(CONNECT.subarray(0, 5));
    const rest = Buffer.concat([CONNECT.subarray(5), announce(PACKET.publish, 200_000), Buffer.alloc(50)]);
    expect(gate.take(rest)).toMatchObject({
      ok: false,
      why: 'packet of 200000 bytes exceeds the limit of 131072',
    });
  });

  it('stops a first packet that is not CONNECT at its first byte', () => {
    for (let first = 0; first < 256; first++) {
      const verdict = new PacketGate().take(Buffer.from([first]));
      expect(verdict.ok).toBe(first >> 4 === PACKET.connect);
    }
  });

  it('stops a second CONNECT at its first byte', () => {
    expect(opened().take(CONNECT.subarray(0, 1))).toEqual({ ok: false, why: 'a second CONNECT' });
  });

  it('stops a packet length of more than four bytes at its fourth byte', () => {
    const gate = opened();
    expect(gate.take(Buffer.from([PACKET.publish << 4, 0x80, 0x80, 0x80]))).toEqual({ ok: true });
    expect(gate.take(Buffer.from([0x80]))).toEqual({ ok: false, why: 'a malformed packet length' });
    expect(new PacketGate().take(Buffer.from([0x10, 0xff, 0xff, 0xff, 0xff]))).toMatchObject(REFUSED);
  });

  it('never throws an error, whatever the bytes are', () => {
    forMany(500, fc.array(fc.uint8Array({ maxLength: 100 }), { maxLength: 5 }), (chunks) => {
      const gate = new PacketGate();
      for (const chunk of chunks) expect(typeof gate.take(Buffer.from(chunk)).ok).toBe('boolean');
    });
  });
});
