/** Invalid frames. */
import {
  announcement,
  deepTable,
  frame,
  headerFrame,
  longString,
  rawMethodFrame,
  tableBytes,
  tableEntry,
} from '#support/bridge-amqp-frames.ts';
import { methodId } from '../outcome.ts';
import { bytes, type Group, method, PARTNER, QUEUE, send, transcript, until } from '../transcript.ts';

/** A frame of the given type whose payload has the given number of zeros. */
const zeros = (type: number, size: number) => bytes(frame(type, 1, Buffer.alloc(size)));

/** A passive queue.declare with these bytes as its argument table. */
function declareWith(table: Buffer, queue = 'vcp.x.event.alarm'): Buffer {
  const name = Buffer.from(queue);
  return Buffer.concat([Buffer.from([0, 0, name.length]), name, Buffer.from([1]), table]);
}

const declare = methodId('queue.declare');

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
    transcript('a body frame of the largest size, where none is due', zeros(3, 131_064)),
    transcript('a body frame that is a byte too large', zeros(3, 131_065)),
    transcript('a body frame of frame_max bytes', zeros(3, 131_072)),
    transcript('a body frame of frame_max bytes and one', zeros(3, 131_073)),
    transcript('a frame that announces two gigabytes', bytes(announcement(1, 0x7fff_ffff))),
    {
      ...transcript('a frame that is too large for what was tuned', zeros(3, 4097)),
      hello: { tune: { frameMax: 4096 } },
    },
    transcript('a method frame with a wrong end', bytes(frame(1, 1, Buffer.alloc(4), 0))),
    transcript('a body frame with a wrong end', bytes(frame(3, 1, Buffer.alloc(4), 1))),
    transcript('a frame of text with a wrong end', bytes(frame(1, 1, Buffer.from('say "yes" \\o/'), 7))),
    transcript('a long frame of text of type 7', bytes(frame(7, 1, Buffer.alloc(20, 'a')))),
    transcript('a frame of type 0', zeros(0, 4)),
    transcript('a frame of type 4', zeros(4, 4)),
    transcript('a frame of type 9', zeros(9, 0)),
    transcript('a method frame without a payload', zeros(1, 0)),
    transcript('a method frame of three bytes', zeros(1, 3)),
    transcript('a method frame of zeros', zeros(1, 4)),
    transcript('a heartbeat with a payload', zeros(8, 4)),
    transcript('a content body where none is due', method.body('x')),
    transcript('an empty content body where none is due', method.body('')),
    transcript('a content header where none is due', method.header(1)),
    transcript('a method in the place of a content header', method.publish(), send('basic.qos')),
    transcript('another publish in the place of a content header', method.publish(), method.publish()),
    transcript('a content body in the place of its header', method.publish(), method.body('x')),
    transcript('a content header of another class', method.publish(), bytes(headerOfClass(50))),
    transcript('a content header that ends early', method.publish(), bytes(frame(2, 1, Buffer.alloc(10)))),
    transcript(
      'a content header without its properties',
      method.publish(),
      bytes(frame(2, 1, headerFrame(1).subarray(7, 19))),
    ),
    transcript(
      'a content header without its properties, and its body',
      method.publish(),
      bytes(frame(2, 1, headerFrame(1).subarray(7, 19))),
      method.body('x'),
    ),
    transcript(
      'a content header with a weight',
      method.publish(),
      bytes(frame(2, 1, Buffer.from('003c00010000000000000001000000', 'hex'))),
    ),
    transcript(
      'properties that end early',
      method.publish(),
      bytes(frame(2, 1, Buffer.from('003c0000000000000000000180000561', 'hex'))),
      method.body('x'),
    ),
    transcript('a second content header', method.publish(), method.header(4), method.header(4)),
    transcript(
      'a method in the place of a content body',
      method.publish(),
      method.header(4),
      send('basic.qos'),
    ),
    transcript('arguments that are missing', method.raw(methodId('basic.qos'), Buffer.alloc(0))),
    transcript('arguments that end early', method.raw(methodId('basic.publish'), Buffer.from([0, 0, 9, 65]))),
    transcript('arguments with a byte more', method.raw(methodId('basic.qos'), Buffer.alloc(8))),
    transcript(
      'a table that is longer than its method',
      method.raw(declare, declareWith(Buffer.from([0, 0, 1, 0]))),
    ),
    transcript(
      'a table with a type that does not exist',
      method.raw(declare, declareWith(tableBytes(tableEntry('x', 'Z', Buffer.alloc(4))))),
    ),
    transcript('a table a thousand deep', method.raw(declare, declareWith(deepTable(1_000)))),
    transcript(
      'a table whose key is __proto__',
      (stage) => {
        const table = tableBytes(tableEntry('__proto__', 'S', longString('A')));
        stage.write(rawMethodFrame(declare, declareWith(table, stage.filled(QUEUE))));
      },
      until('queue.declare-ok'),
    ),
  ],
};
