/** So many walks of one seed; the first that fails is made as short as it can be. */
import fc from 'fast-check';
import { LIMIT } from '../../protocol/limits.ts';
import { walk } from './walk.ts';

const WALKS = 100;
const MAX_ACTIONS = 120;
/** No single piece of memory that a client's bytes bring about is larger. */
const MAX_PIECE_BYTES = 2 * LIMIT.amqpBodyBytes;

const seeds = fc.record({
  seed: fc.nat(),
  actions: fc.array(fc.nat(), { maxLength: MAX_ACTIONS, size: 'max' }),
});

/** How many frames were sent. Throws with the shortest walk that fails. */
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

/** Memory is asked for through these alone: as much as a length on the wire may say, in one piece, is a fault. */
function refuseLargePieces(): () => void {
  const { alloc, allocUnsafe, allocUnsafeSlow } = Buffer;
  const limited = <Rest extends unknown[]>(
    allocate: (size: number, ...rest: Rest) => Buffer<ArrayBuffer>,
  ) => {
    return (size: number, ...rest: Rest) => {
      if (size > MAX_PIECE_BYTES) throw new TypeError(`a piece of ${size} bytes was asked for`);
      return allocate(size, ...rest);
    };
  };
  Buffer.alloc = limited(alloc);
  Buffer.allocUnsafe = limited(allocUnsafe);
  Buffer.allocUnsafeSlow = limited(allocUnsafeSlow);
  return () => Object.assign(Buffer, { alloc, allocUnsafe, allocUnsafeSlow });
}
