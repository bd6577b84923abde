/** Waits with a time limit: an event that does not arrive in time counts as never arriving. */

/** Longer than the longest wait of a server, the ten seconds of a handshake. */
const PATIENCE_MS = 14_000;

/** The awaited event can no longer occur. */
export class Missing extends Error {}

export async function within<Value>(awaited: Promise<Value>, what = 'answer'): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Missing(what)), PATIENCE_MS);
  });
  try {
    return await Promise.race([awaited, late]);
  } finally {
    clearTimeout(timer);
  }
}
