/** Why something failed, for a log: the first cause, in one line. Those above it quote the statements that failed. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const [first = ''] = (causesOf(error).at(-1) ?? error).message.split('\n');
  return first;
}

/** Where what should not happen has happened, for a log: the stack of the first cause. */
export function stackOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const first = causesOf(error).at(-1) ?? error;
  return first.stack ?? String(first);
}

/** An error and what caused it, from the last to the first. */
export function causesOf(error: Error): Error[] {
  const causes: Error[] = [];
  let cause: unknown = error;
  while (cause instanceof Error && causes.length < 8) {
    causes.push(cause);
    cause = cause.cause;
  }
  return causes;
}
