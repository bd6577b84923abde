/**
 * How the simulated plant behaves, for tests and demos. `SITEWIRE_SIMULATOR` and `npm run sitewire -- simulate` select
 * one.
 */

export interface Behaviour {
  connects: boolean;
  /** Whether it sends readings. */
  reports: boolean;
  /** Whether it acknowledges commands. */
  answers: boolean;
  ackDelayMs: number;
  /** Whether its sub-devices report a fault; each command except TOKEN_REFRESH then ends FAILED. */
  inFault: boolean;
  /** The share of the commanded power that it delivers, 0 to 1. */
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
/** `off`: the simulator does not run. */
export type SimulatorSetting = BehaviourName | 'off';

/** Throws a message for the user if `text` is not a setting; `source` says where the text comes from. */
export function settingOf(source: string, text: string): SimulatorSetting {
  const names = ['off', ...Object.keys(BEHAVIOURS)];
  if (!names.includes(text)) throw new Error(`${source} must be one of ${names.join(', ')}, not "${text}"`);
  return text as SimulatorSetting;
}
