/** The audit: who did what, when and from where. */
import { useSignal } from '@preact/signals';
import { AUDIT_EVENTS, type AuditEventName } from '../../protocol/audit-names.ts';
import { api, read } from '../api/client.ts';
import { organizationId } from '../api/session.ts';
import type { AuditEvent } from '../api/types.ts';
import { CallButton, Choices, SelectField, TextField } from '../parts/form.tsx';
import { Time } from '../parts/format.tsx';
import { Empty, Shown, useLoad } from '../parts/load.tsx';
import { Badge, Heading, Table } from '../parts/ui.tsx';
import { setQuery, url } from '../router.tsx';
import { T } from '../texts.ts';

interface Filter {
  event?: AuditEventName;
  from?: string;
  to?: string;
}

/** The begin of the next day: a day may have 23 or 25 hours. */
function nextDay(dayMs: number): Date {
  const day = new Date(dayMs);
  return new Date(day.getFullYear(), day.getMonth(), day.getDate() + 1);
}

/** The filter of the address: an event, and a day of the reader's zone. */
function filterOf({ searchParams }: URL): Filter {
  const event = AUDIT_EVENTS.find((one) => one === searchParams.get('event'));
  const dayMs = Date.parse(`${searchParams.get('day') ?? ''}T00:00`);
  return {
    ...(event === undefined ? {} : { event }),
    ...(Number.isNaN(dayMs) ? {} : { from: new Date(dayMs).toISOString(), to: nextDay(dayMs).toISOString() }),
  };
}

async function page(filter: Filter, before: string | undefined) {
  const query = { limit: 100, ...filter, ...(before === undefined ? {} : { before }) };
  return await read(api.GET('/api/v1/audit-events', { params: { query } }));
}

export function AuditScreen() {
  const filter = filterOf(url.value);
  return (
    <>
      <Heading title={T.nav.audit} />
      <div class="filters">
        <SelectField
          label={T.audit.event}
          value={filter.event ?? ''}
          onChange={(event) => setQuery({ event: event.currentTarget.value || null })}
        >
          <Choices
            none={T.events.all}
            chosen={filter.event}
            of={AUDIT_EVENTS.map((name) => ({ id: name, name }))}
          />
        </SelectField>
        <TextField
          label={T.audit.day}
          type="date"
          value={url.value.searchParams.get('day') ?? ''}
          onChange={(event) => setQuery({ day: event.currentTarget.value || null })}
        />
      </div>
      {/* Another filter has other pages. */}
      <Events key={JSON.stringify(filter)} filter={filter} />
    </>
  );
}

function Events({ filter }: { filter: Filter }) {
  const name = `audit ${organizationId.value} ${JSON.stringify(filter)}`;
  const loaded = useLoad(name, async () => await page(filter, undefined));
  const more = useSignal<AuditEvent[]>([]);
  const next = useSignal<string | null | undefined>(undefined);
  return (
    <Shown loaded={loaded}>
      {({ data, meta }) => {
        const rows = [...data, ...more.value];
        const before = next.value === undefined ? meta.next : next.value;
        if (rows.length === 0) return <Empty>{T.audit.none}</Empty>;
        return (
          <>
            <Table
              caption={T.nav.audit}
              columns={[
                T.command.created,
                T.audit.event,
                T.audit.actor,
                T.audit.target,
                T.audit.address,
                T.audit.outcome,
                T.audit.details,
              ]}
            >
              {rows.map(({ id, createdAt, event, count, actor, target, address, outcome, details }) => (
                <tr key={id}>
                  <td>
                    <Time at={createdAt} />
                  </td>
                  <th scope="row">
                    {event} {count > 1 && <span class="muted">{T.audit.times(count)}</span>}
                  </th>
                  <td class="name">{actor.name ?? actor.type}</td>
                  <td>{target ? `${target.type} ${target.id.slice(0, 8)}` : ''}</td>
                  <td>{address ?? ''}</td>
                  <td>
                    <Badge state={outcome} />
                  </td>
                  <td class="wrap">{Object.keys(details).length === 0 ? '' : JSON.stringify(details)}</td>
                </tr>
              ))}
            </Table>
            {before !== null && (
              <CallButton
                call={async () => {
                  const answer = await page(filter, before);
                  more.value = [...more.value, ...answer.data];
                  next.value = answer.meta.next;
                }}
              >
                {T.common.more}
              </CallButton>
            )}
          </>
        );
      }}
    </Shown>
  );
}
