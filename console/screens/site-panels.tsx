/** The panels of a site below its plan: what is in force, alerts, commands, sub-devices. */
import type { CallError } from '../api/client.ts';
import type { Alert, Command, Explanation, Latest, SubDevice } from '../api/types.ts';
import { escaped } from '../parts/escaped.ts';
import { kw, localTime, percent, Time } from '../parts/format.tsx';
import { Empty, List } from '../parts/load.tsx';
import { Badge, Pairs, Panel, Table } from '../parts/ui.tsx';
import { T } from '../texts.ts';

/** In the place of data: it loads, or could not be read; why is said at the top of the page. */
export function Absent({ error }: { error: CallError | undefined }) {
  return <p class="loading">{error ? T.site.notRead : T.common.loading}</p>;
}

/** What is in force at the moment. */
export function InForce({
  explanation,
  isNow,
  error,
}: {
  explanation: Explanation | undefined;
  isNow: boolean;
  error: CallError | undefined;
}) {
  const title = isNow ? T.site.now : T.site.past;
  if (!explanation)
    return (
      <Panel title={title} className="beside">
        <Absent error={error} />
      </Panel>
    );
  const { target, waiting, limits, emergency, mode, session, fallback, sent, measured } = explanation;
  const place = (one: NonNullable<typeof target>) =>
    [
      T.plan.levels[one.level],
      one.kw !== null ? kw(one.kw) : one.mode,
      one.until && T.site.until(localTime(new Date(one.until))),
    ]
      .filter(Boolean)
      .join(' ');
  return (
    <Panel title={title} className="beside">
      <Pairs
        of={[
          [T.site.target, target ? place(target) : T.common.unknown],
          [
            T.site.measured,
            measured
              ? `${kw(measured.kw)} ${measured.verdict ? `(${T.states[measured.verdict] ?? measured.verdict})` : ''}`
              : T.common.unknown,
          ],
          [
            T.site.waiting,
            waiting.length === 0 ? (
              T.common.none
            ) : (
              <ul>
                {waiting.map((one) => (
                  <li key={place(one)}>{place(one)}</li>
                ))}
              </ul>
            ),
          ],
          [
            T.site.sent,
            sent ? (
              sent.acknowledgedAt ? (
                <>
                  <Time at={sent.acknowledgedAt} /> ({T.site.acknowledged})
                </>
              ) : (
                <>
                  <Time at={sent.at} /> ({T.site.unacknowledged})
                </>
              )
            ) : (
              T.common.none
            ),
          ],
          [T.site.mode, mode ?? T.common.unknown],
          [T.site.gateway, session ? (T.states[session] ?? session) : T.common.unknown],
          [T.site.emergency, emergency ?? T.common.none],
          [T.site.fallback, fallback === null ? T.common.unknown : fallback ? T.common.yes : T.common.no],
          [
            T.site.limits,
            limits ? (
              <ul>
                {Object.entries(limits)
                  .filter(([, value]) => value !== null)
                  .map(([name, value]) => (
                    <li key={name}>
                      {name}: {String(value)}
                    </li>
                  ))}
              </ul>
            ) : (
              T.common.none
            ),
          ],
        ]}
      />
    </Panel>
  );
}

export function AlertsPanel({
  alerts,
  error,
}: {
  alerts: Alert[] | undefined;
  error: CallError | undefined;
}) {
  return (
    <Panel title={T.nav.alerts}>
      {alerts === undefined ? (
        <Absent error={error} />
      ) : alerts.length === 0 ? (
        <Empty>{T.site.noAlerts}</Empty>
      ) : (
        <ul class="plain-list">
          {alerts.map(({ id, severity, status, message, firstSeenAt }) => (
            <li key={id}>
              <Badge state={severity} /> {status === 'ACKNOWLEDGED' && <Badge state={status} tone="quiet" />}{' '}
              {message} <Time at={firstSeenAt} />
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

/** What a command asks for, in a few words. */
export function askedFor({ commandType, payload }: Pick<Command, 'commandType' | 'payload'>): string {
  const { type, direction, targetValueKw, targetValueKwh, mode, commands } = payload as Record<
    string,
    unknown
  >;
  if (commandType === 'SITE_SETPOINT')
    return [type === 'ENERGY' ? `${targetValueKwh} kWh` : `${targetValueKw ?? ''} kW`, direction]
      .filter(Boolean)
      .join(' ');
  if (commandType === 'EMERGENCY') return String(type ?? '');
  if (commandType === 'MODE_CHANGE') return String(mode ?? '');
  if (commandType === 'DEVICE_COMMAND' && Array.isArray(commands))
    return commands.map((one) => `${one?.deviceId} ${one?.command}`).join(', ');
  return '';
}

export function CommandsPanel({
  plantId,
  commands,
  error,
}: {
  plantId: string;
  commands: Command[] | undefined;
  error: CallError | undefined;
}) {
  return (
    <Panel title={T.site.commands}>
      {commands === undefined ? (
        <Absent error={error} />
      ) : commands.length === 0 ? (
        <Empty>{T.site.noCommands}</Empty>
      ) : (
        <Table
          caption={T.site.commands}
          columns={[
            T.command.created,
            T.command.type,
            T.command.asks,
            T.command.priority,
            T.command.status,
            T.command.reason,
            T.command.source,
          ]}
        >
          {commands.map((command) => (
            <tr key={command.id}>
              <td>
                <a href={`/sites/${plantId}/commands/${command.id}`}>
                  <Time at={command.createdAt} />
                </a>
              </td>
              <td>{T.command.types[command.commandType]}</td>
              <td>{askedFor(command)}</td>
              <td>{command.priority ?? ''}</td>
              <td>
                <Badge state={command.status} />
              </td>
              <td>{escaped(`${command.rejectionCode ?? command.reason ?? ''} ${command.message ?? ''}`)}</td>
              <td>{command.keyPrefix ?? escaped(command.source)}</td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}

/** Their power and state of charge at the moment; the status is known of now alone. */
export function SubDevices({
  subDevices,
  latest,
  isNow,
}: {
  subDevices: SubDevice[];
  latest: Latest | undefined;
  isNow: boolean;
}) {
  const samples = new Map(latest?.payload.devices?.map((sample) => [sample.deviceId, sample]));
  return (
    <Panel title={T.site.subDevices}>
      <List of={subDevices} none={T.site.noSubDevices}>
        <Table
          caption={T.site.subDevices}
          columns={[
            T.site.name,
            T.site.asset,
            T.sites.status,
            T.site.measuredPower,
            T.site.soc,
            T.site.rated,
          ]}
        >
          {subDevices.map(({ id, name, externalId, assetType, status, ratedPowerKw, capacityKwh }) => {
            const sample = samples.get(externalId) as Record<string, unknown> | undefined;
            const value = (field: string) =>
              typeof sample?.[field] === 'number' ? (sample[field] as number) : null;
            return (
              <tr key={id}>
                <th scope="row">
                  {name} <small class="muted">{externalId}</small>
                </th>
                <td>{assetType}</td>
                <td>{isNow && <Badge state={status} />}</td>
                <td class="number">{kw(value('powerKw'))}</td>
                <td class="number">{assetType === 'BESS' ? percent(value('socPercent')) : ''}</td>
                <td class="number">
                  {ratedPowerKw === null ? '' : kw(ratedPowerKw)}{' '}
                  {capacityKwh === null ? '' : `${capacityKwh} kWh`}
                </td>
              </tr>
            );
          })}
        </Table>
      </List>
    </Panel>
  );
}
