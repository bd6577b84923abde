/** One write per turn, and the report that the socket has taken it. */
import { Duplex } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { turns } from '#support/bridge-signal.ts';
import { Output } from '../../../../bridge/amqp/wire/output.ts';

/** A socket that takes a write when the test accepts it. */
class SlowSocket extends Duplex {
  readonly writes: string[] = [];
  #taken: (() => void) | undefined;
  isEnded = false;

  constructor() {
    super();
    this.on('error', () => {});
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.writes.push(chunk.toString());
    this.#taken = done;
  }

  override _final(done: () => void): void {
    this.isEnded = true;
    done();
  }

  accept(): void {
    const taken = this.#taken;
    this.#taken = undefined;
    taken?.();
  }
}

const it = test.extend('socket', () => new SlowSocket()).extend('output', ({ socket }) => new Output(socket));

const bytes = (text: string) => Buffer.from(text);

describe('output', () => {
  it('what is written in one turn of the event loop reaches the socket in one write, in order', async ({
    socket,
    output,
  }) => {
    output.write(bytes('a'));
    output.write(bytes('b'));
    expect(socket.writes).toEqual([]);
    await turns(1);
    expect(socket.writes).toEqual(['ab']);
    socket.accept();
    output.write(bytes('c'));
    await turns(1);
    expect(socket.writes).toEqual(['ab', 'c']);
  });

  it('beforeFlush runs before each flush, also when nothing else is written', async ({ socket, output }) => {
    let asked = 0;
    output.beforeFlush = () => {
      asked += 1;
      output.write(bytes(`(${asked})`));
    };
    output.write(bytes('a'));
    output.write(bytes('b'));
    output.flush();
    expect(socket.writes).toEqual(['ab(1)']);
    socket.accept();
    output.beforeFlush = () => output.write(bytes('late'));
    output.schedule();
    output.schedule();
    await turns(1);
    expect(socket.writes).toEqual(['ab(1)', 'late']);
  });

  it('a write is reported to its writer when the socket has taken it', async ({ socket, output }) => {
    const taken: string[] = [];
    output.write(bytes('a'), () => taken.push('a'));
    output.write(bytes('b'));
    output.write(bytes('c'), () => taken.push('c'));
    await turns(1);
    output.write(bytes('d'), () => taken.push('d'));
    await turns(2);
    expect(taken).toEqual([]);
    socket.accept();
    await turns(1);
    expect(taken).toEqual(['a', 'c']);
    socket.accept();
    await turns(1);
    expect(taken).toEqual(['a', 'c', 'd']);
  });

  it('a write that the socket did not take is not reported', async ({ socket, output }) => {
    const taken: string[] = [];
    output.write(bytes('a'), () => taken.push('a'));
    await turns(1);
    output.write(bytes('b'), () => taken.push('b'));
    socket.destroy(new Error('reset'));
    await turns(2);
    expect(taken).toEqual([]);
  });

  it('end sends what was written before it, and nothing that is written after it', async ({
    socket,
    output,
  }) => {
    output.write(bytes('bye'));
    output.end();
    expect(socket.writes).toEqual(['bye']);
    output.write(bytes('more'));
    socket.accept();
    await turns(2);
    expect(socket.writes).toEqual(['bye']);
    expect(socket.isEnded).toBe(true);
    output.end();
  });

  it('a write to a closed socket is dropped without an error', async ({ socket, output }) => {
    socket.destroy();
    output.write(bytes('a'));
    await turns(2);
    output.end();
    expect(socket.writes).toEqual([]);
  });
});
