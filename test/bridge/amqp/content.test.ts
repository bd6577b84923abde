/** The assembly of a publish from its frames: their order, the size limits, and an unchanged result. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  amqpErrorOf,
  deepTable,
  headerFrame,
  methodFrame,
  tableBytes,
  tableEntry,
} from '#support/bridge-amqp-frames.ts';
import { properties, shortString } from '#support/bridge-amqp-values.ts';
import { forAll } from '#support/property.ts';
import { ContentAssembly, checkProperties, readPublish } from '../../../bridge/amqp/content.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { LIMIT } from '../../../protocol/limits.ts';

const PUBLISH = { exchange: 'vcp', routingKey: 'acme.command.mode', mandatory: false };

function publishArguments(fields: object): Buffer {
  return methodFrame(METHOD.basicPublish, { ...fields }).subarray(11, -1);
}

/** The payload of a content header. */
function header(size: number, fields: object = {}): Buffer {
  return headerFrame(size, { ...fields }).subarray(7, -1);
}

function rawHeader(size: bigint, flagsAndFields: Buffer, classId = 60): Buffer {
  const head = Buffer.alloc(12);
  head.writeUInt16BE(classId, 0);
  head.writeBigUInt64BE(size, 4);
  return Buffer.concat([head, flagsAndFields]);
}

function errorOf(act: () => unknown): string {
  const { severity, text, classId, methodId } = amqpErrorOf(act) ?? {};
  return `${severity} ${text} [${classId}/${methodId}]`;
}

const codeOf = (act: () => unknown) => /^(\w+) (\w+)/.exec(errorOf(act))?.slice(1).join(' ');

describe('basic.publish', () => {
  it('is decoded to the fields that amqplib encoded', () => {
    forAll(shortString, shortString, fc.boolean(), (exchange, routingKey, mandatory) => {
      const fields = { exchange, routingKey, mandatory };
      expect(readPublish(publishArguments({ ...fields, immediate: false }))).toEqual(fields);
    });
  });

  it('fails with 540 if it is immediate', () => {
    for (const mandatory of [false, true])
      expect(errorOf(() => readPublish(publishArguments({ ...PUBLISH, mandatory, immediate: true })))).toBe(
        'connection NOT_IMPLEMENTED - immediate=true [60/40]',
      );
  });

  it('cut short at any byte fails with 501', () => {
    const whole = publishArguments(PUBLISH);
    for (let length = 0; length < whole.length; length++)
      expect(codeOf(() => readPublish(whole.subarray(0, length)))).toBe('connection FRAME_ERROR');
  });
});

describe('the content of a publish', () => {
  it('keeps its body, in however many frames, and its properties byte for byte', () => {
    const body = fc.uint8Array({ minLength: 1, maxLength: 500 }).map((array) => Buffer.from(array));
    forAll(body, fc.array(fc.nat(200), { maxLength: 8 }), properties, (bytes, cuts, own) => {
      // The broker checks these two properties and forwards all others unread.
      const sent = { ...own, userId: undefined, expiration: undefined };
      const content = new ContentAssembly(PUBLISH);
      const head = header(bytes.length, sent);
      expect(content.takeHeader(head)).toBeUndefined();
      let start = 0;
      for (const cut of cuts) {
        const end = Math.min(start + cut, bytes.length - 1);
        expect(content.takeBody(bytes.subarray(start, end))).toBeUndefined();
        start = end;
      }
      expect(content.takeBody(bytes.subarray(start))).toEqual({
        ...PUBLISH,
        properties: head.subarray(12).toString('base64'),
        body: bytes,
      });
    });
  });

  it('is complete with its header if it has no body', () => {
    expect(new ContentAssembly(PUBLISH).takeHeader(header(0))?.body).toEqual(Buffer.alloc(0));
  });

  it('keeps its body when the buffer of the socket is reused', () => {
    const content = new ContentAssembly(PUBLISH);
    content.takeHeader(header(4));
    const chunk = Buffer.from('body');
    const publish = content.takeBody(chunk);
    chunk.fill('x');
    expect(publish?.body.toString()).toBe('body');
  });

  it('may have 256 KiB; one more byte fails with 311 at its header [C-6.3]', () => {
    const content = new ContentAssembly(PUBLISH);
    content.takeHeader(header(LIMIT.amqpBodyBytes));
    expect(content.takeBody(Buffer.alloc(LIMIT.amqpBodyBytes))?.body.length).toBe(256 * 1024);
    expect(errorOf(() => new ContentAssembly(PUBLISH).takeHeader(header(LIMIT.amqpBodyBytes + 1)))).toBe(
      'channel CONTENT_TOO_LARGE - message size 262145 is larger than configured max size 262144 [60/40]',
    );
    const largest = rawHeader(2n ** 64n - 1n, Buffer.from([0, 0]));
    expect(codeOf(() => new ContentAssembly(PUBLISH).takeHeader(largest))).toBe('channel CONTENT_TOO_LARGE');
  });
});

/** Checks the properties of a content of one byte. */
function checkContent(head: Buffer): void {
  const content = new ContentAssembly(PUBLISH);
  content.takeHeader(head);
  const whole = content.takeBody(Buffer.from('x'));
  if (whole) checkProperties(whole, 'acme');
}

describe('an invalid content', () => {
  it('a body longer than announced fails with 505', () => {
    const content = new ContentAssembly(PUBLISH);
    content.takeHeader(header(3));
    expect(errorOf(() => content.takeBody(Buffer.from('four')))).toBe(
      'connection UNEXPECTED_FRAME - expected content body, got non content body frame instead [60/40]',
    );
  });

  it('a body before its header, a second header and a header of another class fail with 505', () => {
    expect(errorOf(() => new ContentAssembly(PUBLISH).takeBody(Buffer.from('x')))).toBe(
      'connection UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead [60/40]',
    );
    const content = new ContentAssembly(PUBLISH);
    content.takeHeader(header(3));
    expect(codeOf(() => content.takeHeader(header(3)))).toBe('connection UNEXPECTED_FRAME');
    const other = rawHeader(0n, Buffer.from([0, 0]), 50);
    expect(codeOf(() => new ContentAssembly(PUBLISH).takeHeader(other))).toBe('connection UNEXPECTED_FRAME');
  });

  it('headers 1 000 tables deep or of more than 16 KiB fail with 502', () => {
    const flags = Buffer.from([0x20, 0]);
    const deep = rawHeader(1n, Buffer.concat([flags, deepTable(1_000)]));
    expect(codeOf(() => checkContent(deep))).toBe('connection SYNTAX_ERROR');
    const long = Buffer.concat([flags, tableBytes(tableEntry('k', 'x', tableBytes(Buffer.alloc(16_384))))]);
    expect(codeOf(() => new ContentAssembly(PUBLISH).takeHeader(rawHeader(1n, long)))).toBe(
      'connection SYNTAX_ERROR',
    );
  });

  it('headers that do not decode fail with 501', () => {
    const bytes = Buffer.concat([Buffer.from([0x20, 0]), tableBytes(tableEntry('k', 'Z', Buffer.alloc(4)))]);
    expect(codeOf(() => checkContent(rawHeader(1n, bytes)))).toBe('connection FRAME_ERROR');
  });
});
