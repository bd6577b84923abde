/** How the simulated plant behaves, for tests and demos: `SITEWIRE_SIMULATOR` and `npm run simulator` name one. */

export interface Behaviour {
  connects: boolean;
  /** Sends readings. */
  reports: boolean;
  /** Acknowledges commands. */
  answers: boolean;
  ackDelayMs: number;
  /** Its sub-devices report a fault, and it obeys nothing: each command ends FAILED. */
  inFault: boolean;
  /** What it delivers of the power that it is told, 0 to 1. */
  share: number;
}

const SOUND: Behaviour = {
  connects: true,
  reports: true,
  answers: true,
  ackDelayMs: 0,
  inFault: false,
  share: 1,
};

export const BEHAVIOURS = {
  on: SOUND,
  offline: { ...SOUND, connects: false },
  silent: { ...SOUND, reports: false, answers: false },
  slow: { ...SOUND, ackDelayMs: 5_000 },
  faulty: { ...SOUND, inFault: true },
  short: { ...SOUND, share: 0.6 },
} satisfies Record<string, Behaviour>;
export type BehaviourName = keyof typeof BEHAVIOURS;
/** `off`: no plant at all. */
export type SimulatorSetting = BehaviourName | 'off';

/** Throws a sentence for any other word. */
export function settingOf(source: string, text: string): SimulatorSetting {
  const names = ['off', ...Object.keys(BEHAVIOURS)];
  if (!names.includes(text)) throw new Error(`${source} must be one of ${names.join(', ')}, not "${text}"`);
  return text as SimulatorSetting;
}
