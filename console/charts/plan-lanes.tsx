/** The plan as a timeline: a lane for each level; what is on top is solid, what waits is hatched, what ended is faded. */
import type { PlanChange } from '../api/types.ts';
import { kw, localTime } from '../parts/format.tsx';
import { T } from '../texts.ts';
import { barsOf, LANES, type Shown } from './plan.ts';

const [LANE, LABELS, WIDTH] = [26, 90, 900];
/** The part of the width that the names of the lanes take. */
export const LABEL_SHARE = LABELS / WIDTH;

export function PlanLanes({
  changes,
  shown,
  atMs,
  moveTo,
}: {
  changes: readonly PlanChange[];
  shown: Shown;
  /** The moment that the other panels show; null: now. */
  atMs: number | null;
  moveTo: (atMs: number | null) => void;
}) {
  const { fromMs, toMs, nowMs } = shown;
  const bars = barsOf(changes, shown);
  const x = (at: number) => LABELS + ((at - fromMs) / (toMs - fromMs)) * (WIDTH - LABELS);
  const height = LANES.length * LANE;
  const cursorMs = atMs ?? nowMs;
  const pick = (event: PointerEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * WIDTH;
    if (at < LABELS) return;
    const picked = fromMs + ((at - LABELS) / (WIDTH - LABELS)) * (toMs - fromMs);
    moveTo(picked >= nowMs ? null : Math.round(picked));
  };
  const onKey = (event: KeyboardEvent) => {
    const step = (toMs - fromMs) / 60;
    const to = { ArrowLeft: cursorMs - step, ArrowRight: cursorMs + step, Home: fromMs, End: nowMs }[
      event.key
    ];
    if (to === undefined) return;
    event.preventDefault();
    moveTo(to >= nowMs ? null : Math.round(Math.max(fromMs, to)));
  };
  return (
    <div
      class="plan"
      role="slider"
      tabIndex={0}
      aria-label={T.plan.cursor}
      aria-valuemin={fromMs}
      aria-valuemax={nowMs}
      aria-valuenow={cursorMs}
      aria-valuetext={localTime(new Date(cursorMs))}
      onPointerDown={pick}
      onPointerMove={(event) => event.buttons === 1 && pick(event)}
      onKeyDown={onKey}
    >
      <svg viewBox={`0 0 ${WIDTH} ${height + 18}`} aria-hidden="true">
        <defs>
          <pattern
            id="hatch"
            width="6"
            height="6"
            patternUnits="userSpaceOnUse"
            patternTransform="rotate(45)"
          >
            <rect class="hatch-ground" width="6" height="6" />
            <line class="hatch-line" y2="6" />
          </pattern>
        </defs>
        {LANES.map((lane, index) => (
          <g key={lane}>
            <rect class="lane" x={LABELS} y={index * LANE} width={WIDTH - LABELS} height={LANE - 3} />
            <text class="lane-name" x="0" y={index * LANE + 16}>
              {T.plan.lanes[lane]}
            </text>
          </g>
        ))}
        {bars.map((bar) => {
          const { place } = bar;
          const y = LANES.indexOf(bar.lane) * LANE + 2;
          const width = Math.max(2, x(bar.toMs) - x(bar.fromMs));
          const label = place.kw !== null ? kw(place.kw) : (place.mode ?? place.level);
          return (
            <g
              key={`${bar.lane} ${bar.fromMs} ${bar.state} ${place.commandId} ${place.slot}`}
              class={`bar ${bar.state} ${bar.isPast ? 'past' : ''}`}
              data-lane={bar.lane}
              data-state={bar.state}
              data-past={bar.isPast}
            >
              <title>
                {`${T.plan.lanes[bar.lane]} ${label}, ${T.plan[bar.state]}, ${localTime(new Date(bar.fromMs))} – ${localTime(new Date(bar.toMs))}`}
              </title>
              <rect x={x(bar.fromMs)} y={y} width={width} height={LANE - 7} rx="3" />
              {width > 60 && (
                <text x={x(bar.fromMs) + 6} y={y + 14}>
                  {label}
                </text>
              )}
            </g>
          );
        })}
        {[0, 0.25, 0.5, 0.75].map((part) => {
          const at = fromMs + part * (toMs - fromMs);
          return (
            <text key={part} class="tick" x={x(at)} y={height + 13}>
              {localTime(new Date(at))}
            </text>
          );
        })}
        <line class="now" x1={x(nowMs)} x2={x(nowMs)} y1="0" y2={height} />
        {atMs !== null && <line class="cursor" x1={x(atMs)} x2={x(atMs)} y1="0" y2={height} />}
      </svg>
    </div>
  );
}
