/** Why a command is rejected, in the spec's codes (spec: Rejection code meaning; [C-7.4]). */
import type { RejectionCode } from '../../../protocol/enums.ts';
import { faultsText } from '../../../protocol/issue.ts';

export interface Refusal {
  rejectionCode: RejectionCode;
  message: string;
  /** A broken limit: raised as an alarm too. */
  violation?: Violation;
}

export interface Violation {
  constraint: string;
  limit: number;
  value: number;
  unit: 'kW' | '%';
  deviceId?: string;
  /** Of a schedule. */
  slot?: number | undefined;
  /** How it breaks the limit; absent: by exceeding it, or a state of charge by being there. */
  how?: string;
}

export function refusal(rejectionCode: RejectionCode, message: string): Refusal {
  return { rejectionCode, message };
}

/** Several as one: the code and the limit of the first, and what each says. */
export function together(refusals: readonly (Refusal | undefined)[]): Refusal | undefined {
  const found = refusals.filter((one) => one !== undefined);
  const [first] = found;
  return first && { ...first, message: faultsText(found.map(({ message }) => message)) };
}

/** What was broken, in words; a slot by its number. */
export function violationText({
  constraint,
  limit,
  value,
  unit,
  how = unit === '%' ? 'is at' : 'exceeds',
  slot,
}: Violation): string {
  const subject = slot === undefined ? '' : `slot ${slot}: `;
  return `${subject}${value} ${unit} ${how} ${constraint} ${limit} ${unit}`;
}

export function violated(violation: Violation): Refusal {
  const { deviceId } = violation;
  const subject = deviceId ? `${deviceId}: ` : '';
  return {
    rejectionCode: 'CONSTRAINT_VIOLATION',
    message: `${subject}${violationText(violation)}`,
    violation,
  };
}
