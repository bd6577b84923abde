/**
 * Sends to and closes sockets that may already be closed. Their close event or the next load of the object
 * handles that.
 */
import { packFrames } from '../../protocol/link/batch.ts';

export function sendFrames(socket: WebSocket, frames: readonly unknown[]): void {
  try {
    for (const message of packFrames(frames)) socket.send(message);
  } catch {
    // The socket has just closed: its close event ends the session. Commands and deliveries that the other side has
    // not acknowledged are sent again in a new session; answers are lost.
  }
}

/** A close frame holds 123 bytes of reason. Reasons are made ASCII, so a character is a byte. */
const MAX_REASON_CHARS = 100;

/**
 * Ends the link of a client or device. A last frame carries code and reason, because the WebSocket close may
 * arrive late at an idle client.
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
    // The socket is already closed.
  }
}

function printable(reason: string): string {
  return reason.replace(/[^\x20-\x7e]/g, '?').slice(0, MAX_REASON_CHARS);
}
