/**
 * The reason of a failure for a log: the message of the root cause, in one line. The errors that wrap the
 * root cause are left out, because they quote SQL statements.
 */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const [first = ''] = (causesOf(error).at(-1) ?? error).message.split('\n');
  return first;
}

/** The stack of the root cause, for the log of an unexpected error. */
export function stackOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const first = causesOf(error).at(-1) ?? error;
  return first.stack ?? String(first);
}

/** The error and its chain of causes, at most eight; the root cause is last. */
export function causesOf(error: Error): Error[] {
  const causes: Error[] = [];
  let cause: unknown = error;
  while (cause instanceof Error && causes.length < 8) {
    causes.push(cause);
    cause = cause.cause;
  }
  return causes;
}
