/** Adds a time limit to a promise. The work itself continues after the limit; its outcome is then ignored. */
export async function within<Value>(limitMs: number, work: PromiseLike<Value>): Promise<Value> {
  let timer: number | null = null;
  const limit = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${limitMs} ms`)), limitMs);
  });
  try {
    return await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
}
