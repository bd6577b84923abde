/** What a key does now: connections, queues, and the last rejections with what to do about each. */
import { api, read } from '../api/client.ts';
import type { KeyStatus } from '../api/types.ts';
import { Ago, Time } from '../parts/format.tsx';
import { List, Shown, useLoad } from '../parts/load.tsx';
import { Panel, Table } from '../parts/ui.tsx';
import { T } from '../texts.ts';

export function NowPanel({ id }: { id: string }) {
  const path = { params: { path: { id } } };
  const loaded = useLoad(
    `status ${id}`,
    async () => await read(api.GET('/api/v1/partner/api-keys/{id}/status', path)),
    5_000,
  );
  return (
    <Panel title={T.keyNow.title}>
      <Shown loaded={loaded}>{(status) => <Status status={status} />}</Shown>
    </Panel>
  );
}

function Status({ status: { connections, queues, lastRejections } }: { status: KeyStatus }) {
  return (
    <>
      <h3>{T.keyNow.connections}</h3>
      <List of={connections} none={T.keyNow.noConnections}>
        <ul class="plain-list">
          {connections.map(({ address, connectedAt }) => (
            <li key={`${address} ${connectedAt}`}>
              {address}, {T.keyNow.since} <Ago at={connectedAt} />
            </li>
          ))}
        </ul>
      </List>
      <h3>{T.keyNow.queues}</h3>
      <Table
        caption={T.keyNow.queues}
        columns={[
          T.site.name,
          T.keyNow.ready,
          T.keyNow.unacked,
          T.keyNow.consumers,
          T.keyNow.oldest,
          T.keyNow.dropped,
        ]}
      >
        {queues.map(({ name, ready, unacked, consumers, oldestAt, dropped }) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td class="number">{ready}</td>
            <td class="number">{unacked}</td>
            <td class="number">{consumers}</td>
            <td>{oldestAt && <Ago at={oldestAt} />}</td>
            <td class="number">{dropped}</td>
          </tr>
        ))}
      </Table>
      <h3>{T.keyNow.rejections}</h3>
      <List of={lastRejections} none={T.keyNow.noRejections}>
        <ul class="plain-list">
          {lastRejections.map(({ at, siteId, commandType, rejectionCode, message }) => (
            <li key={`${at} ${siteId} ${message}`}>
              <Time at={at} /> <a href={`/sites/${siteId}`}>{T.command.types[commandType]}</a>{' '}
              <code>{rejectionCode}</code> {message}
              <br />
              <span class="muted">{T.keyNow.remedies[rejectionCode]}</span>
            </li>
          ))}
        </ul>
      </List>
    </>
  );
}
