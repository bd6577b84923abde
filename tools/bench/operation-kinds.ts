/** The kinds of operations of the runtime whose memory `bench -- memory` measures, each with their number in a round. */
export const OPERATIONS = {
  'timer that is cancelled': 20_000,
  'timer that fires': 20_000,
  waitUntil: 20_000,
  'waitUntil, held by the first': 20_000,
  'RPC call': 20_000,
  'WebSocket message': 20_000,
  transactionSync: 20_000,
  'write and sync': 20_000,
  setAlarm: 20_000,
  alarm: 2_000,
  'D1 query': 4_000,
} as const;

export type Operation = keyof typeof OPERATIONS;
