/**
 * The kinds of operations of the runtime whose memory `bench -- memory` measures, each with the number that is measured
 * after as many for the warm-up. An operation leaves small JavaScript objects behind that hold memory of the runtime.
 * As the object allocates nothing else, V8 collects them late: only large numbers show what stays for ever. An alarm and
 * a D1 query take too long for that, so their figures include garbage.
 */
export const OPERATIONS = {
  'timer that is cancelled': 100_000,
  'timer that fires': 100_000,
  waitUntil: 500_000,
  'waitUntil, held by the first': 200_000,
  'RPC call': 300_000,
  'WebSocket message': 150_000,
  transactionSync: 200_000,
  'write and sync': 200_000,
  setAlarm: 200_000,
  alarm: 15_000,
  'D1 query': 20_000,
} as const;

export type Operation = keyof typeof OPERATIONS;
