/** The audit: who did what, when and from where. */
import { useSignal } from '@preact/signals';
import { api, read } from '../api/client.ts';
import { organizationId } from '../api/session.ts';
import type { AuditEvent } from '../api/types.ts';
import { Time } from '../parts/format.tsx';
import { Empty, Shown, useLoad } from '../parts/load.tsx';
import { Badge, CallButton, Heading, Table } from '../parts/ui.tsx';
import { T } from '../texts.ts';

async function page(before: string | undefined) {
  const query = { limit: 100, ...(before === undefined ? {} : { before }) };
  return await read(api.GET('/api/v1/audit-events', { params: { query } }));
}

export function AuditScreen() {
  const loaded = useLoad(`audit ${organizationId.value}`, async () => await page(undefined));
  const more = useSignal<AuditEvent[]>([]);
  const next = useSignal<string | null | undefined>(undefined);
  return (
    <>
      <Heading title={T.nav.audit} />
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
                {rows.map(({ id, createdAt, event, actor, target, address, outcome, details }) => (
                  <tr key={id}>
                    <td>
                      <Time at={createdAt} />
                    </td>
                    <th scope="row">{event}</th>
                    <td>{actor.name ?? actor.type}</td>
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
                    const answer = await page(before);
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
    </>
  );
}
