/** Invalid frames. */
import {
  deepTable,
  definitions,
  frame,
  headerFrame,
  tableBytes,
  tableEntry,
} from '#support/bridge-amqp-frames.ts';
import { methodId } from '../outcome.ts';
import { bytes, type Group, method, PARTNER, QUEUE, send } from '../transcript.ts';

/** A frame of the given type whose payload has the given number of zeros. */
const zeros = (type: number, size: number) => bytes(frame(type, 1, Buffer.alloc(size)));

/** A passive queue.declare of the alarm queue with these bytes as its argument table. */
function declareWith(table: Buffer): Buffer {
  const name = Buffer.from('vcp.x.event.alarm');
  return Buffer.concat([Buffer.from([0, 0, name.length]), name, Buffer.from([1]), table]);
}

const declare = methodId('queue.declare');

/** The header of a frame that announces more than the permitted size. */
function announced(type: number, size: number): Buffer {
  const bytesOfHeader = Buffer.alloc(7);
  bytesOfHeader.writeUInt8(type, 0);
  bytesOfHeader.writeUInt16BE(1, 1);
  bytesOfHeader.writeUInt32BE(size, 3);
  return bytesOfHeader;
}

function headerOfClass(classId: number): Buffer {
  const payload = Buffer.alloc(14);
  payload.writeUInt16BE(classId, 0);
  return frame(2, 1, payload);
}

export const frames: Group = {
  name: 'frames',
  rights: PARTNER,
  atOnce: 4,
  transcripts: [
    { title: 'a body frame of the largest size, where none is due', steps: [zeros(3, 131_064)] },
    { title: 'a body frame that is a byte too large', steps: [zeros(3, 131_065)] },
    { title: 'a body frame of frame_max bytes', steps: [zeros(3, 131_072)] },
    { title: 'a body frame of frame_max bytes and one', steps: [zeros(3, 131_073)] },
    { title: 'a frame that announces two gigabytes', steps: [bytes(announced(1, 0x7fff_ffff))] },
    {
      title: 'a frame that is too large for what was tuned',
      hello: { tune: { frameMax: 4096 } },
      steps: [zeros(3, 4097)],
    },
    { title: 'a method frame with a wrong end', steps: [bytes(frame(1, 1, Buffer.alloc(4), 0))] },
    { title: 'a body frame with a wrong end', steps: [bytes(frame(3, 1, Buffer.alloc(4), 1))] },
    {
      title: 'a frame of text with a wrong end',
      steps: [bytes(frame(1, 1, Buffer.from('say "yes" \\o/'), 7))],
    },
    { title: 'a long frame of text of type 7', steps: [bytes(frame(7, 1, Buffer.alloc(20, 'a')))] },
    { title: 'a frame of type 0', steps: [zeros(0, 4)] },
    { title: 'a frame of type 4', steps: [zeros(4, 4)] },
    { title: 'a frame of type 9', steps: [zeros(9, 0)] },
    { title: 'a method frame without a payload', steps: [zeros(1, 0)] },
    { title: 'a method frame of three bytes', steps: [zeros(1, 3)] },
    { title: 'a method frame of zeros', steps: [zeros(1, 4)] },
    { title: 'a heartbeat with a payload', steps: [zeros(8, 4)] },
    { title: 'a content body where none is due', steps: [method.body('x')] },
    { title: 'an empty content body where none is due', steps: [method.body('')] },
    { title: 'a content header where none is due', steps: [method.header(1)] },
    { title: 'a method in the place of a content header', steps: [method.publish(), send('basic.qos')] },
    {
      title: 'another publish in the place of a content header',
      steps: [method.publish(), method.publish()],
    },
    { title: 'a content body in the place of its header', steps: [method.publish(), method.body('x')] },
    { title: 'a content header of another class', steps: [method.publish(), bytes(headerOfClass(50))] },
    {
      title: 'a content header that ends early',
      steps: [method.publish(), bytes(frame(2, 1, Buffer.alloc(10)))],
    },
    {
      title: 'a content header without its properties',
      steps: [method.publish(), bytes(frame(2, 1, headerFrame(1).subarray(7, 19)))],
    },
    {
      title: 'a content header without its properties, and its body',
      steps: [method.publish(), bytes(frame(2, 1, headerFrame(1).subarray(7, 19))), method.body('x')],
    },
    {
      title: 'a content header with a weight',
      steps: [method.publish(), bytes(frame(2, 1, Buffer.from('003c00010000000000000001000000', 'hex')))],
    },
    {
      title: 'properties that end early',
      steps: [
        method.publish(),
        bytes(frame(2, 1, Buffer.from('003c0000000000000000000180000561', 'hex'))),
        method.body('x'),
      ],
    },
    { title: 'a second content header', steps: [method.publish(), method.header(4), method.header(4)] },
    {
      title: 'a method in the place of a content body',
      steps: [method.publish(), method.header(4), send('basic.qos')],
    },
    { title: 'arguments that are missing', steps: [method.raw(methodId('basic.qos'), Buffer.alloc(0))] },
    {
      title: 'arguments that end early',
      steps: [method.raw(methodId('basic.publish'), Buffer.from([0, 0, 9, 65]))],
    },
    {
      title: 'arguments with a byte more',
      steps: [method.raw(methodId('basic.qos'), Buffer.alloc(8))],
    },
    {
      title: 'a table that is longer than its method',
      steps: [method.raw(declare, declareWith(Buffer.from([0, 0, 1, 0])))],
    },
    {
      title: 'a table with a type that does not exist',
      steps: [method.raw(declare, declareWith(tableBytes(tableEntry('x', 'Z', Buffer.alloc(4)))))],
    },
    {
      title: 'a table a thousand deep',
      steps: [method.raw(declare, declareWith(deepTable(1_000)))],
    },
    {
      title: 'a table whose key is __proto__',
      steps: [
        (stage) => {
          const entry = tableEntry('__proto__', 'S', Buffer.from([0, 0, 0, 1, 65]));
          const name = Buffer.from(stage.name(QUEUE));
          const args = Buffer.concat([
            Buffer.from([0, 0, name.length]),
            name,
            Buffer.from([1]),
            tableBytes(entry),
          ]);
          stage.write(
            frame(
              1,
              1,
              Buffer.concat([definitions.encodeMethod(declare, 1, { arguments: {} }).subarray(7, 11), args]),
            ),
          );
        },
        async (stage) => stage.until('queue.declare-ok'),
      ],
    },
  ],
};
