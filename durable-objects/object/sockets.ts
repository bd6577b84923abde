/** Sending to and closing sockets that may be gone already: their close event, or the next wake, tells. */
import { packFrames } from '../../protocol/link/batch.ts';

export function sendFrames(socket: WebSocket, frames: readonly unknown[]): void {
  try {
    for (const message of packFrames(frames)) socket.send(message);
  } catch {
    // The socket closed under us: its close event ends the session, and what was not acknowledged goes out again.
  }
}

/** A close frame holds 123 bytes of reason; ours are ASCII but for what a peer wrote. */
const MAX_REASON_CHARS = 100;

/**
 * Ends a link that is a client's: a last frame says so and why, for the close itself may take its time to arrive at a
 * client that is idle.
 */
export function endLink(socket: WebSocket, code: number, reason: string): void {
  const text = printable(reason);
  sendFrames(socket, [{ kind: 'goodbye', code, reason: text }]);
  closeQuietly(socket, code, text);
}

export function closeQuietly(socket: WebSocket, code: number, reason: string): void {
  try {
    socket.close(code, printable(reason));
  } catch {
    // Closed already.
  }
}

function printable(reason: string): string {
  return reason.replace(/[^\x20-\x7e]/g, '?').slice(0, MAX_REASON_CHARS);
}
