/** Alerts: acknowledge and resolve; and the rules that open them. */
import { api, read } from '../api/client.ts';
import { organizationId } from '../api/session.ts';
import type { Alert } from '../api/types.ts';
import { Ago, FirstOf } from '../parts/format.tsx';
import { Empty, Shown, useLoad } from '../parts/load.tsx';
import { Badge, CallButton, Field, Heading, Table } from '../parts/ui.tsx';
import { setQuery, url } from '../router.tsx';
import { T } from '../texts.ts';
import { AlertRules } from './alert-rules.tsx';

const STATUSES = ['ACTIVE', 'ACKNOWLEDGED', 'RESOLVED'] as const;

export function AlertsScreen() {
  const status = STATUSES.find((one) => one === url.value.searchParams.get('status')) ?? 'ACTIVE';
  const loaded = useLoad(
    `alerts ${organizationId.value} ${status}`,
    async () => {
      const query = { status, limit: 100 };
      return (await read(api.GET('/api/v1/alerts', { params: { query } }))) as {
        data: Alert[];
        meta: { total: number };
      };
    },
    10_000,
  );
  const after = async (call: Promise<unknown>) => {
    await call;
    await loaded.reload();
  };
  return (
    <>
      <Heading title={T.nav.alerts}>
        <Field label={T.sites.status}>
          {(attributes) => (
            <select
              {...attributes}
              value={status}
              onChange={(event) => setQuery({ status: event.currentTarget.value })}
            >
              {STATUSES.map((one) => (
                <option key={one} value={one}>
                  {T.states[one] ?? one}
                </option>
              ))}
            </select>
          )}
        </Field>
      </Heading>
      <Shown loaded={loaded}>
        {({ data: alerts, meta }) =>
          alerts.length === 0 ? (
            <Empty>{T.alerts.none}</Empty>
          ) : (
            <>
              <Table
                caption={T.nav.alerts}
                columns={[
                  T.alerts.severity,
                  T.alerts.message,
                  T.alerts.site,
                  T.alerts.since,
                  T.alerts.last,
                  T.alerts.count,
                  T.alerts.note,
                  T.alerts.actions,
                ]}
              >
                {alerts.map((alert) => {
                  const path = { params: { path: { id: alert.id } }, body: {} };
                  return (
                    <tr key={alert.id}>
                      <td>
                        <Badge state={alert.severity} />
                      </td>
                      <th scope="row" class="wrap">
                        {alert.message}
                      </th>
                      <td>
                        {alert.plantId && (
                          <a href={`/sites/${alert.plantId}`}>{alert.plantId.slice(0, 8)}…</a>
                        )}
                      </td>
                      <td>
                        <Ago at={alert.firstSeenAt} />
                      </td>
                      <td>
                        <Ago at={alert.lastSeenAt} />
                      </td>
                      <td class="number">{alert.count}</td>
                      <td class="wrap">{alert.note ?? ''}</td>
                      <td>
                        {alert.status === 'ACTIVE' && (
                          <CallButton
                            call={() => after(read(api.POST('/api/v1/alerts/{id}/acknowledge', path)))}
                          >
                            {T.alerts.acknowledge}
                          </CallButton>
                        )}
                        {alert.status !== 'RESOLVED' && (
                          <CallButton call={() => after(read(api.POST('/api/v1/alerts/{id}/resolve', path)))}>
                            {T.alerts.resolve}
                          </CallButton>
                        )}
                      </td>
                    </tr>
                  );
                })}
              </Table>
              <FirstOf shown={alerts.length} total={meta.total} />
            </>
          )
        }
      </Shown>
      <AlertRules />
    </>
  );
}
