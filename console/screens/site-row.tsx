/** A row of the list of sites. It reads its live values while it is on the screen. */
import { useEffect, useRef } from 'preact/hooks';
import { valuesOf } from '../api/row-values.ts';
import type { Alert, Plant } from '../api/types.ts';
import { Sparkline } from '../charts/sparkline.tsx';
import { Ago, kw } from '../parts/format.tsx';
import { Badge } from '../parts/ui.tsx';
import { T } from '../texts.ts';
import { SEVERITIES } from './trouble.ts';

/** Values that are due are read at the next look. */
const LOOK_MS = 5_000;
/** A row that is scrolled past reads nothing. */
const RESTS_MS = 300;

export function SiteRow({ plant, alerts }: { plant: Plant; alerts: Alert[] }) {
  const row = useRef<HTMLTableRowElement>(null);
  const values = valuesOf(plant.id);
  useEffect(() => {
    let isShown = false;
    let rest: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      if (isShown) void values.readSoon(() => isShown);
    };
    const timer = setInterval(look, LOOK_MS);
    const observer = new IntersectionObserver((entries) => {
      isShown = entries.at(-1)?.isIntersecting ?? false;
      clearTimeout(rest);
      if (isShown) rest = setTimeout(look, RESTS_MS);
    });
    if (row.current) observer.observe(row.current);
    return () => {
      isShown = false;
      observer.disconnect();
      clearTimeout(rest);
      clearInterval(timer);
    };
  }, [plant.id]);
  const { latest, points, attention, hasFailed } = values;
  const payload = latest.value?.payload;
  const newest = [...alerts].sort(
    (one, other) => SEVERITIES.indexOf(other.severity) - SEVERITIES.indexOf(one.severity),
  )[0];
  return (
    <tr ref={row}>
      <th scope="row">
        <a href={`/sites/${plant.id}`}>{plant.name}</a>
        {plant.externalPlantId && <small class="muted"> {plant.externalPlantId}</small>}
      </th>
      <td>
        <Badge state={plant.status} />
      </td>
      <td class="number">
        {payload ? kw(payload.gridPowerKw) : '…'}{' '}
        {payload && payload.dataQuality !== 'GOOD' && <Badge state={payload.dataQuality} />}
        {attention.value?.deviates && <Badge state="DEVIATES" tone="warning" />}
        {hasFailed.value && <span class="inline-error">{T.sites.notRead}</span>}
      </td>
      <td>
        <Sparkline points={points.value} label={T.sites.lastHour} />
      </td>
      <td>{attention.value && attention.value.waiting > 0 && T.sites.waits(attention.value.waiting)}</td>
      <td class="name">
        {newest && (
          <>
            <Badge state={newest.severity} /> {newest.message} <Ago at={newest.lastSeenAt} />
            {alerts.length > 1 && <span class="muted"> {T.sites.more(alerts.length - 1)}</span>}
          </>
        )}
      </td>
    </tr>
  );
}
