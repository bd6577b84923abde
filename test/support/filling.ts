/** What a test has a Site's journal filled with (`workerd/heavy-worker.ts`). */
export interface Filling {
  deviceId: string;
  messages: number;
  /** Length of each message's data. */
  chars: number;
  /** When the first and the last of them were received, epoch milliseconds. */
  fromMs: number;
  untilMs: number;
}
