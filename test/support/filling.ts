/** The content that a test fills a Site's journal with (`workerd/heavy-worker.ts`). */
export interface Filling {
  deviceId: string;
  messages: number;
  /** Length of each message's data. */
  chars: number;
  /** When the first and the last message were received, in epoch milliseconds. */
  fromMs: number;
  untilMs: number;
}
