/** Measured and commanded grid power over time. The library is loaded when the first chart is shown. */
import { useEffect, useRef } from 'preact/hooks';
import type uPlot from 'uplot';
import type { PlanChange, Point } from '../api/types.ts';
import { kw, localTime } from '../parts/format.tsx';
import { theme } from '../parts/theme.ts';
import { T } from '../texts.ts';
import { LABEL_SHARE, type Range } from './plan-lanes.tsx';

const HEIGHT = 180;

/** The commanded power at each of these times: that of the last change before; null where nothing commands it. */
export function commandedAt(times: readonly number[], changes: readonly PlanChange[]): (number | null)[] {
  let next = 0;
  let current: number | null = null;
  return times.map((atMs) => {
    for (let change = changes[next]; change && Date.parse(change.at) <= atMs; change = changes[next]) {
      current = change.target.kw;
      next += 1;
    }
    return current;
  });
}

export function Power({
  points,
  changes,
  range,
  nowMs,
  atMs,
}: {
  points: readonly Point[];
  changes: readonly PlanChange[];
  range: Range;
  nowMs: number;
  atMs: number | null;
}) {
  const host = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | undefined>(undefined);
  const data = dataOf(points, changes, range, nowMs);
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
      plot.setData(data, false);
      plot.setScale('x', { min: range.fromMs / 1_000, max: range.toMs / 1_000 });
      if (atMs !== null) plot.setCursor({ left: plot.valToPos(atMs / 1_000, 'x'), top: 1 });
    });
  }, [points, changes, range.fromMs, range.toMs, atMs]);
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

/** The commanded power is drawn up to `nowMs`. */
function dataOf(
  points: readonly Point[],
  changes: readonly PlanChange[],
  { fromMs, toMs }: Range,
  nowMs: number,
): uPlot.AlignedData {
  const measured = new Map(points.map(({ timestamp, value }) => [Date.parse(timestamp), value]));
  const inside = changes.map(({ at }) => Date.parse(at)).filter((atMs) => atMs >= fromMs && atMs <= toMs);
  const times = [...new Set([...measured.keys(), ...inside.flatMap((atMs) => [atMs - 1, atMs]), nowMs])].sort(
    (a, b) => a - b,
  );
  return [
    times.map((atMs) => atMs / 1_000),
    // Undefined is no gap: the line goes on to the next reading.
    times.map((atMs) => measured.get(atMs)) as (number | undefined)[],
    commandedAt(times, changes),
  ];
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
