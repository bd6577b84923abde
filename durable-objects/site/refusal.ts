/** Why a command is rejected, in the spec's codes (spec: Rejection code meaning; [C-7.4]). */
import type { RejectionCode } from '../../protocol/enums.ts';
import { faultsText } from '../../protocol/issue.ts';

export interface Refusal {
  rejectionCode: RejectionCode;
  message: string;
  /** The violated limit; also raised as an alarm. */
  violation?: Violation;
  /** The refusals that this one combines. */
  parts?: readonly Refusal[];
}

export interface Violation {
  constraint: string;
  limit: number;
  /** Undefined: the command asks for a power that the platform does not know. */
  value: number | undefined;
  unit: 'kW' | '%';
  deviceId?: string;
  /** The slot number in a schedule. */
  slot?: number | undefined;
  /** The verb of the message; default: 'exceeds', or 'is at' for a state of charge. */
  how?: string;
  /** The whole message, if it is not about a value and its limit. */
  text?: string;
}

export function refusal(rejectionCode: RejectionCode, message: string): Refusal {
  return { rejectionCode, message };
}

/** Combines refusals: the code and violation of the first, the messages of all up to `LIMIT.faultsReported`. */
export function together(refusals: readonly (Refusal | undefined)[]): Refusal | undefined {
  const found = refusals.filter((one) => one !== undefined);
  const [first] = found;
  if (!first || found.length === 1) return first;
  return { ...first, message: faultsText(found.map(({ message }) => message)), parts: found };
}

/** Describes a violation, for example `51 kW exceeds maxChargeKw 50 kW`. */
export function violationText({
  constraint,
  limit,
  value,
  unit,
  how = unit === '%' ? 'is at' : 'exceeds',
  slot,
  text,
}: Violation): string {
  if (text !== undefined) return text;
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
