/** Measured and commanded grid power over time. The library is loaded when the first chart is shown. */
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type uPlot from 'uplot';
import { RANGES, type RangeName } from '../api/site.ts';
import type { PlanChange, Point } from '../api/types.ts';
import { kw, localTime } from '../parts/format.tsx';
import { theme } from '../parts/theme.ts';
import { T } from '../texts.ts';
import type { Shown } from './plan.ts';
import { LABEL_SHARE } from './plan-lanes.tsx';
import { powerData } from './power-data.ts';

const HEIGHT = 180;
/** The line of the commanded power follows the time in these steps. */
const REDRAW_MS = 5_000;

export function Power({
  points,
  changes,
  shown,
  range,
  atMs,
}: {
  points: readonly Point[];
  changes: readonly PlanChange[];
  shown: Shown;
  range: RangeName;
  atMs: number | null;
}) {
  const { fromMs, toMs, nowMs } = shown;
  const host = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | undefined>(undefined);
  const data = useMemo(
    () => powerData(points, changes, shown, RANGES[range].gapMs),
    [points, changes, Math.floor(nowMs / REDRAW_MS)],
  );
  const drawn = useRef<uPlot.AlignedData | undefined>(undefined);
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    let isGone = false;
    const element = host.current;
    if (!element) return undefined;
    const resize = new ResizeObserver(() => {
      chart.current?.setSize({ width: element.clientWidth, height: HEIGHT });
    });
    void import('uplot').then(({ default: Plot }) => {
      if (isGone) return;
      chart.current = new Plot(optionsOf(element), latest.current, element);
      resize.observe(element);
    });
    return () => {
      isGone = true;
      resize.disconnect();
      chart.current?.destroy();
      chart.current = undefined;
    };
  }, [theme.value]);
  useEffect(() => {
    const plot = chart.current;
    if (!plot) return;
    plot.batch(() => {
      if (drawn.current !== data) plot.setData(data, false);
      drawn.current = data;
      plot.setScale('x', { min: fromMs / 1_000, max: toMs / 1_000 });
      if (atMs !== null) plot.setCursor({ left: plot.valToPos(atMs / 1_000, 'x'), top: 1 });
    });
  }, [data, fromMs, toMs, atMs]);
  const last = points.at(-1);
  return (
    <figure class="power">
      <div ref={host} role="img" aria-label={`${T.site.power}: ${kw(last?.value)}`} />
      <figcaption>
        <span class="key measured">{T.site.measured}</span>{' '}
        <span class="key commanded">{T.site.commanded}</span>
      </figcaption>
    </figure>
  );
}

function optionsOf(element: HTMLElement): uPlot.Options {
  // A canvas knows no `light-dark()`: the browser computes it for an element.
  const colour = (name: string) => {
    element.style.color = `var(${name})`;
    return getComputedStyle(element).color;
  };
  const axis = { stroke: colour('--muted'), grid: { stroke: colour('--line'), width: 1 } };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    // The time axis is that of the plan above it.
    padding: [8, 0, 0, 0],
    cursor: { y: false },
    legend: { show: false },
    scales: { x: { time: true } },
    axes: [
      { ...axis, values: (_plot, ticks) => ticks.map((at) => localTime(new Date(at * 1_000))), space: 110 },
      {
        ...axis,
        size: () => element.clientWidth * LABEL_SHARE,
        values: (_plot, ticks) => ticks.map((value) => `${value} kW`),
      },
    ],
    series: [
      {},
      { label: T.site.measured, stroke: colour('--measured'), width: 2, points: { show: false } },
      {
        label: T.site.commanded,
        stroke: colour('--commanded'),
        width: 2,
        dash: [6, 4],
        points: { show: false },
      },
    ],
  };
}
