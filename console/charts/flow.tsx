/** The flow of energy: grid, PV, battery and load around the connection of the site. */
import type { Latest } from '../api/types.ts';
import { kw, percent } from '../parts/format.tsx';
import { T } from '../texts.ts';

interface Branch {
  name: string;
  x: number;
  y: number;
  value: number | null;
  /** Whether the energy flows to the middle. */
  isIn: boolean;
  more: string;
}

const MIDDLE = { x: 180, y: 105 };
/** Below this a branch is at rest. */
const REST_KW = 0.005;

export function Flow({ payload }: { payload: Latest['payload'] }) {
  const { gridPowerKw, fvePowerKw, batteryPowerKw, consumptionPowerKw, socPercent } = payload;
  const at = (value: number | null) => value ?? 0;
  const branches: Branch[] = [
    {
      ...{ name: T.flow.grid, x: 55, y: 45, value: gridPowerKw, isIn: at(gridPowerKw) >= 0 },
      more: gridPowerKw === null ? '' : gridPowerKw >= 0 ? T.flow.imports : T.flow.exports,
    },
    { name: T.flow.pv, x: 305, y: 45, value: fvePowerKw, isIn: true, more: '' },
    {
      ...{ name: T.flow.battery, x: 55, y: 165, value: batteryPowerKw, isIn: at(batteryPowerKw) < 0 },
      more: `${socPercent === null ? '' : percent(Math.round(socPercent))} ${
        at(batteryPowerKw) > REST_KW ? T.flow.charges : at(batteryPowerKw) < -REST_KW ? T.flow.discharges : ''
      }`.trim(),
    },
    { name: T.flow.load, x: 305, y: 165, value: consumptionPowerKw, isIn: false, more: '' },
  ];
  const summary = branches.map(({ name, value, more }) => `${name} ${kw(value)} ${more}`.trim()).join(', ');
  return (
    <svg class="flow" viewBox="0 0 360 210" role="img" aria-label={summary}>
      {branches.map(({ name, x, y, value, isIn }) => (
        <line
          key={name}
          class={value === null ? 'absent' : Math.abs(value) < REST_KW ? 'rest' : isIn ? 'in' : 'out'}
          x1={isIn ? x : MIDDLE.x}
          y1={isIn ? y : MIDDLE.y}
          x2={isIn ? MIDDLE.x : x}
          y2={isIn ? MIDDLE.y : y}
        />
      ))}
      <circle class="node" cx={MIDDLE.x} cy={MIDDLE.y} r="14" />
      {branches.map(({ name, x, y, value, more }) => (
        <g key={name}>
          <rect class="node" x={x - 52} y={y - 32} width="104" height="64" rx="8" />
          <text class="name" x={x} y={y - 13}>
            {name}
          </text>
          <text class="value" x={x} y={y + 7}>
            {value === null ? '–' : kw(Math.abs(value))}
          </text>
          <text class="more" x={x} y={y + 24}>
            {more}
          </text>
        </g>
      ))}
    </svg>
  );
}
