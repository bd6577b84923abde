/** What a replay finds. */
export interface Difference {
  /** The line of the file that has the recorded decision. */
  number: number;
  /** The decision and its command. */
  about: string;
  /** What was recorded and what was derived. */
  text: string;
}

export interface ReplayResult {
  lines: number;
  /** The SHA-256 of the last line, as the audit event has it. */
  sha256: string;
  /** How many decisions of each kind were derived again. */
  judgements: number;
  plans: number;
  verdicts: number;
  /** Decisions whose inputs are not in the file. */
  skipped: number;
  differences: Difference[];
}

/** A file that is no whole export: which line is wrong, and what is wrong with it. */
export class BrokenExport extends Error {
  constructor(number: number, what: string) {
    super(`line ${number}: ${what}`);
  }
}
