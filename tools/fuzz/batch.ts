/** Runs a number of random walks from one seed. The first walk that fails is reduced to its shortest form. */
import fc from 'fast-check';
import { LIMIT } from '../../protocol/limits.ts';
import { walk } from './walk.ts';

const WALKS = 100;
const MAX_ACTIONS = 120;
/** The largest single allocation that the bytes of a client may cause. */
const MAX_PIECE_BYTES = 2 * LIMIT.amqpBodyBytes;

const seeds = fc.record({
  seed: fc.nat(),
  actions: fc.array(fc.nat(), { maxLength: MAX_ACTIONS, size: 'max' }),
});

/** Returns how many frames were sent. Throws with the shortest walk that fails. */
export async function fuzz(seed: number, walks = WALKS): Promise<number> {
  let frames = 0;
  const restore = refuseLargePieces();
  try {
    const property = fc.asyncProperty(seeds, async (one) => {
      frames += await walk(one);
    });
    await fc.assert(property, {
      seed,
      numRuns: walks,
      interruptAfterTimeLimit: 60_000,
      markInterruptAsFailure: false,
      includeErrorInReport: true,
    });
  } finally {
    restore();
  }
  return frames;
}

/** Makes large allocations throw: an allocation as large as a length field on the wire claims is a fault. */
function refuseLargePieces(): () => void {
  const { alloc, allocUnsafe, allocUnsafeSlow } = Buffer;
  const limited = <Rest extends unknown[]>(
    allocate: (size: number, ...rest: Rest) => Buffer<ArrayBuffer>,
  ) => {
    return (size: number, ...rest: Rest) => {
      if (size > MAX_PIECE_BYTES)
        throw new TypeError(`allocation of ${size} bytes requested; the limit is ${MAX_PIECE_BYTES}`);
      return allocate(size, ...rest);
    };
  };
  Buffer.alloc = limited(alloc);
  Buffer.allocUnsafe = limited(allocUnsafe);
  Buffer.allocUnsafeSlow = limited(allocUnsafeSlow);
  return () => Object.assign(Buffer, { alloc, allocUnsafe, allocUnsafeSlow });
}
