/** Waiting with an end: what does not come in time never comes. */

/** Longer than any wait of a server: ten seconds of a handshake. */
const PATIENCE_MS = 14_000;

/** What was waited for cannot come any more. */
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
