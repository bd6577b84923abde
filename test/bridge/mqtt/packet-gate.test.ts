/** The gate before the broker: it follows packets through any cutting, and stops what must not come at its header. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PacketGate } from '../../../bridge/mqtt/size-gate.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { connectPacket, lengthBytes, PACKET, packet, publishPacket } from '../../support/bridge-mqtt-peer.ts';

const CONNECT = connectPacket({ username: 'u', password: 'p' });
const REFUSED = { ok: false };

/** The header alone. */
function announce(type: number, length: number): Buffer {
  return Buffer.concat([Buffer.from([type << 4]), lengthBytes(length)]);
}

/** A gate that has let a CONNECT through. */
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
  it('lets packets through however they are cut, and knows when CONNECT is whole', () => {
    fc.assert(
      fc.property(fc.array(laterPacket, { maxLength: 10 }), fc.array(fc.nat(80)), (packets, cuts) => {
        const gate = new PacketGate();
        const whole = Buffer.concat([CONNECT, ...packets]);
        let start = 0;
        for (const cut of [...cuts, whole.length]) {
          expect(gate.take(whole.subarray(start, start + cut))).toEqual({ ok: true });
          start = Math.min(whole.length, start + cut);
          expect(gate.connectDone).toBe(start >= CONNECT.length);
        }
      }),
    );
  });

  it('lets packets through that are cut in two at every byte', () => {
    const whole = Buffer.concat([
      CONNECT,
      publishPacket('t', Buffer.alloc(300)),
      packet(PACKET.pingreq, 0),
      packet(PACKET.disconnect, 0),
    ]);
    for (let at = 0; at <= whole.length; at++) {
      const gate = new PacketGate();
      expect(gate.take(whole.subarray(0, at))).toEqual({ ok: true });
      expect(gate.take(whole.subarray(at))).toEqual({ ok: true });
    }
  });

  it('says that CONNECT is whole at its last byte, not before', () => {
    const gate = new PacketGate();
    for (const byte of CONNECT.subarray(0, -1)) gate.take(Buffer.from([byte]));
    expect(gate.connectDone).toBe(false);
    gate.take(CONNECT.subarray(-1));
    expect(gate.connectDone).toBe(true);
  });

  it('takes a CONNECT of 16 KiB and a packet of 128 KiB, and not a byte more', () => {
    expect(new PacketGate().take(announce(PACKET.connect, LIMIT.mqttConnectBytes))).toEqual({ ok: true });
    expect(new PacketGate().take(announce(PACKET.connect, LIMIT.mqttConnectBytes + 1))).toMatchObject(
      REFUSED,
    );
    expect(opened().take(announce(PACKET.publish, LIMIT.mqttPacketBytes))).toEqual({ ok: true });
    expect(opened().take(announce(PACKET.publish, LIMIT.mqttPacketBytes + 1))).toEqual({
      ok: false,
      why: 'a packet of 131073 bytes',
    });
  });

  it('stops a packet that announces 256 MB before CONNECT at its header', () => {
    for (const type of [PACKET.connect, PACKET.publish]) {
      const gate = new PacketGate();
      const verdicts = [...announce(type, 268_435_455)].map((byte) => gate.take(Buffer.from([byte])));
      expect(verdicts.filter(({ ok }) => !ok).length).toBeGreaterThan(0);
    }
  });

  it('stops an overlong packet in the chunk that brings the end of the one before it', () => {
    const gate = new PacketGate();
    gate.take(CONNECT.subarray(0, 5));
    const rest = Buffer.concat([CONNECT.subarray(5), announce(PACKET.publish, 200_000), Buffer.alloc(50)]);
    expect(gate.take(rest)).toMatchObject({ ok: false, why: 'a packet of 200000 bytes' });
  });

  it('stops whatever begins with anything but CONNECT, at the first byte', () => {
    for (let first = 0; first < 256; first++) {
      const verdict = new PacketGate().take(Buffer.from([first]));
      expect(verdict.ok).toBe(first >> 4 === PACKET.connect);
    }
  });

  it('stops a second CONNECT at its first byte', () => {
    expect(opened().take(CONNECT.subarray(0, 1))).toEqual({ ok: false, why: 'a second CONNECT' });
  });

  it('stops a length of more than four bytes at the fourth', () => {
    const gate = opened();
    expect(gate.take(Buffer.from([PACKET.publish << 4, 0x80, 0x80, 0x80]))).toEqual({ ok: true });
    expect(gate.take(Buffer.from([0x80]))).toEqual({ ok: false, why: 'a malformed packet length' });
    expect(new PacketGate().take(Buffer.from([0x10, 0xff, 0xff, 0xff, 0xff]))).toMatchObject(REFUSED);
  });

  it('takes any bytes without an exception', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 100 }), { maxLength: 5 }), (chunks) => {
        const gate = new PacketGate();
        for (const chunk of chunks) expect(typeof gate.take(Buffer.from(chunk)).ok).toBe('boolean');
      }),
      { numRuns: 500 },
    );
  });
});
