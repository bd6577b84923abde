/** A small line without axes: how a value went. */
import type { Point } from '../api/types.ts';
import { T } from '../texts.ts';

const [WIDTH, HEIGHT] = [120, 28];

export function Sparkline({ points, label }: { points: readonly Point[]; label: string }) {
  if (points.length < 2) return <span class="muted">{T.common.noData}</span>;
  const values = points.map(({ value }) => value);
  const [low, high] = [Math.min(...values, 0), Math.max(...values, 0)];
  const times = points.map(({ timestamp }) => Date.parse(timestamp));
  const [from = 0, to = 1] = [times[0], times.at(-1)];
  const x = (at: number) => ((at - from) / Math.max(1, to - from)) * WIDTH;
  const y = (value: number) => HEIGHT - 2 - ((value - low) / Math.max(0.001, high - low)) * (HEIGHT - 4);
  const path = values
    .map((value, index) => `${index === 0 ? 'M' : 'L'}${x(times[index] ?? 0)} ${y(value)}`)
    .join('');
  return (
    <svg
      class="sparkline"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={`${label}: ${T.charts.span(low, high)}`}
    >
      <line class="axis" x1="0" x2={WIDTH} y1={y(0)} y2={y(0)} />
      <path d={path} />
    </svg>
  );
}
