/** Numbers with units, and times in the zone of the reader with UTC on hover. */
import { signal } from '@preact/signals';
import { offsetMs, platformNow } from '../api/clock.ts';
import { T } from '../texts.ts';

/** The least difference of the clocks that is shown. */
const NOTICED_MS = 60_000;

const number = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });
const time = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const day = new Intl.DateTimeFormat('en-GB', { day: '2-digit', month: 'short' });
const year = new Intl.DateTimeFormat('en-GB', { day: '2-digit', month: 'short', year: 'numeric' });

/** The platform's time, once a second, for what counts time. */
export const now = signal(platformNow());
const noteTime = () => {
  now.value = platformNow();
};
setInterval(() => {
  if (!document.hidden) noteTime();
}, 1_000);
// What was shown before the platform's time was known is shown again.
offsetMs.subscribe(noteTime);

export function kw(value: number | null | undefined): string {
  return value === null || value === undefined ? T.common.unknown : `${number.format(value)} kW`;
}

export function percent(value: number | null | undefined): string {
  return value === null || value === undefined ? T.common.unknown : `${number.format(value)} %`;
}

export function ms(value: number): string {
  if (value < 1_000) return `${value} ms`;
  if (value < 60_000) return `${number.format(value / 1_000)} s`;
  const minutes = Math.floor(value / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.round((value % 60_000) / 1_000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function localTime(at: Date): string {
  const today = new Date(platformNow());
  const isToday = at.toDateString() === today.toDateString();
  const isThisYear = at.getFullYear() === today.getFullYear();
  if (isToday) return time.format(at);
  return `${(isThisYear ? day : year).format(at)} ${time.format(at)}`;
}

/** An instant of the API. */
export function Time({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="muted">{T.common.never}</span>;
  return (
    <time dateTime={at} title={`${at.replace('T', ' ').replace('Z', '')} UTC`}>
      {localTime(new Date(at))}
    </time>
  );
}

/** How long ago an instant was. */
export function Ago({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="muted">{T.common.never}</span>;
  const age = Math.max(0, now.value - Date.parse(at));
  return (
    <time dateTime={at} title={`${at.replace('T', ' ').replace('Z', '')} UTC`}>
      {age < 2_000 ? T.common.now : T.common.ago(shortAge(age))}
    </time>
  );
}

/** Says that the clock of this computer is wrong. */
export function ClockNotice() {
  const byMs = Math.abs(offsetMs.value);
  if (byMs < NOTICED_MS) return null;
  const age = shortAge(Math.round(byMs / 60_000) * 60_000);
  return (
    <p class="notice" role="status">
      {T.common.clock(age, offsetMs.value < 0)}
    </p>
  );
}

function shortAge(age: number): string {
  if (age < 60_000) return `${Math.floor(age / 1_000)} s`;
  if (age < 3_600_000) return `${Math.floor(age / 60_000)} min`;
  if (age < 172_800_000) return `${Math.floor(age / 3_600_000)} h`;
  return `${Math.floor(age / 86_400_000)} days`;
}

/** Says that a list has more rows than are shown. */
export function FirstOf({ shown, total }: { shown: number; total: number }) {
  return total > shown ? <p class="muted">{T.common.firstOf(shown, total)}</p> : null;
}
