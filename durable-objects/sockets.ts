/** Sending to and closing sockets that may be gone already: their close event, or the next wake, tells. */
import { packFrames } from '../protocol/link.ts';

export function sendFrames(socket: WebSocket, frames: readonly unknown[]): void {
  try {
    for (const message of packFrames(frames)) socket.send(message);
  } catch {
    // The socket closed under us: its close event ends the session, and what was not acknowledged goes out again.
  }
}

export function closeQuietly(socket: WebSocket, code: number, reason: string): void {
  try {
    socket.close(code, reason);
  } catch {
    // Closed already.
  }
}
