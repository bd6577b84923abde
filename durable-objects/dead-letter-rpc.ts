/** The RPC contract for the dead letters of a key. Add fields, never change the meaning of one (see rpc.ts). */
import type { DeadLetter, DeadLetterRefusal, Requeued } from '../protocol/dead-letter.ts';

export interface DeadLetterRpc {
  /** Dead letters, oldest first, after the one with an id (null = from the first one); `next`: the id to continue after. */
  listDeadLetters(
    after: string | null,
    limit: number,
  ): { deadLetters: DeadLetter[]; next: string | null } | DeadLetterRefusal;
  /** Publishes a dead letter again, or puts an event back into its queue [C-12.5]. */
  requeueDeadLetter(id: string): Promise<Requeued | DeadLetterRefusal>;
  deleteDeadLetter(id: string): 'deleted' | DeadLetterRefusal;
}
