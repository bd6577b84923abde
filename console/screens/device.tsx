/** One device: its steps to the first login, its credentials, and what is wrong with it. */
import { renderSVG } from 'uqr';
import { api, read } from '../api/client.ts';
import { may } from '../api/session.ts';
import type { Device, Package } from '../api/types.ts';
import { Dialog, useOpen } from '../parts/dialog.tsx';
import { download } from '../parts/download.ts';
import { CallForm } from '../parts/form.tsx';
import { Ago, Time } from '../parts/format.tsx';
import { Empty, List, Shown, useLoad } from '../parts/load.tsx';
import { Badge, Code, Heading, Pairs, Panel, Step, Table } from '../parts/ui.tsx';
import { T } from '../texts.ts';
import { Credentials, CsrField, csrOf } from './device-actions.tsx';
import { PlacePanel } from './device-place.tsx';

export function DeviceScreen({ params: { deviceId = '' } }: { params: Record<string, string> }) {
  const path = { params: { path: { id: deviceId } } };
  const loaded = useLoad(deviceId, async () => await read(api.GET('/api/v1/devices/{id}', path)), 3_000);
  return <Shown loaded={loaded}>{(device) => <Shows device={device} reload={loaded.reload} />}</Shown>;
}

function Shows({ device, reload }: { device: Device; reload: () => Promise<void> }) {
  const { id, name, plantId, status } = device;
  const made = useOpen<Package>();
  const provision = async (form: FormData) => {
    const path = { params: { path: { id } }, body: csrOf(form) };
    made.open(await read(api.POST('/api/v1/devices/{id}/provision', path)));
    await reload();
  };
  return (
    <>
      <Heading title={name}>
        <Badge state={status} />
        <Badge state={device.connectionStatus} />
      </Heading>
      <div class="columns">
        <Panel title={T.devices.steps}>
          <ol class="steps">
            <Step isDone title={T.devices.registered}>
              {device.serialNumber}
            </Step>
            <Step isDone={device.provisionedAt !== null} title={T.devices.provisioned}>
              {device.provisionedAt !== null ? (
                <Time at={device.provisionedAt} />
              ) : may('ADMIN') ? (
                <CallForm submit={provision} label={T.devices.provision}>
                  {device.authMethod === 'MTLS' && <CsrField />}
                </CallForm>
              ) : (
                T.devices.needsAdmin
              )}
            </Step>
            <Step isDone={device.connectionStatus === 'ONLINE'} title={T.devices.connected}>
              {device.lastSeenAt === null ? T.devices.waits : <Ago at={device.lastSeenAt} />}
            </Step>
          </ol>
        </Panel>
        <Panel title={T.keys.details}>
          <Pairs
            of={[
              [T.devices.serial, device.serialNumber],
              [T.devices.type, device.type],
              [T.devices.auth, device.authMethod],
              [
                T.devices.plant,
                plantId ? <a href={`/sites/${plantId}`}>{plantId.slice(0, 8)}…</a> : T.common.none,
              ],
              [T.devices.seen, <Ago at={device.lastSeenAt} />],
              [
                T.devices.tokenUntil,
                device.tokenExpiresAt ? <Time at={device.tokenExpiresAt} /> : T.common.none,
              ],
              [
                T.devices.rotation,
                device.hmacRotation ? <Time at={device.hmacRotation.graceUntil} /> : T.common.none,
              ],
              [
                T.devices.suspended,
                device.suspendedAt ? (
                  <>
                    <Time at={device.suspendedAt} /> {device.suspendReason}
                  </>
                ) : (
                  T.common.no
                ),
              ],
            ]}
          />
          {may('ADMIN') && device.provisionedAt !== null && <Credentials device={device} reload={reload} />}
        </Panel>
      </div>
      {may('OPERATOR') && <PlacePanel device={device} reload={reload} />}
      {may('OPERATOR') && <DiagnosticsPanel id={id} />}
      {made.shown && <PackageDialog made={made.shown} name={name} close={made.close} />}
    </>
  );
}

/** More characters fit into no QR code that a camera reads well. */
const QR_CHARS = 2_000;

function PackageDialog({ made, name, close }: { made: Package; name: string; close: () => void }) {
  const text = JSON.stringify(made, null, 2);
  const short = JSON.stringify(made);
  return (
    <Dialog title={T.devices.package} close={close} keeps>
      <p class="notice">{T.keys.onceHint}</p>
      {short.length <= QR_CHARS ? <Qr text={short} /> : <p class="muted">{T.devices.noQr}</p>}
      <Code label={T.devices.package} text={text} />
      <button type="button" class="primary" onClick={() => download(`${name}-package.json`, text)}>
        {T.keys.download}
      </button>
    </Dialog>
  );
}

/** The code as a picture of its own, because markup in a text is not trusted here. */
function Qr({ text }: { text: string }) {
  const source = `data:image/svg+xml;utf8,${encodeURIComponent(renderSVG(text))}`;
  return <img class="qr" src={source} alt={T.devices.qr} width="280" height="280" />;
}

function DiagnosticsPanel({ id }: { id: string }) {
  const path = { params: { path: { id } } };
  const loaded = useLoad(
    `diagnostics ${id}`,
    async () => await read(api.GET('/api/v1/devices/{id}/diagnostics', path)),
    5_000,
  );
  return (
    <Panel title={T.devices.diagnostics}>
      <Shown loaded={loaded}>
        {({ hints, drops, recent, connects }) => (
          <>
            {hints.map((hint) => (
              <p class="notice" key={hint}>
                {hint}
              </p>
            ))}
            <h3>{T.devices.dropped}</h3>
            {Object.keys(drops).length === 0 ? (
              <Empty>{T.devices.noDrops}</Empty>
            ) : (
              <p>
                {Object.entries(drops)
                  .map(([reason, count]) => `${reason}: ${count}`)
                  .join(', ')}
              </p>
            )}
            {recent.length > 0 && (
              <Table
                caption={T.devices.dropped}
                columns={[T.command.created, T.devices.topic, T.command.reason, T.devices.detail]}
              >
                {recent.slice(0, 20).map((one, index) => (
                  <tr key={`${one.at} ${index}`}>
                    <td>
                      <Time at={one.at} />
                    </td>
                    <td>{one.topic}</td>
                    <td>{one.reason}</td>
                    <td class="wrap">
                      {one.detail} {one.expected ?? ''}
                    </td>
                  </tr>
                ))}
              </Table>
            )}
            <h3>{T.devices.logins}</h3>
            <List of={connects} none={T.devices.noLogins}>
              <ul class="plain-list">
                {connects.slice(0, 20).map((one, index) => (
                  <li key={`${one.at} ${index}`}>
                    <Time at={one.at} />{' '}
                    <Badge state={one.outcome} tone={one.outcome === 'ACCEPTED' ? 'good' : 'bad'} />{' '}
                    {one.address} {one.reason ?? ''}
                  </li>
                ))}
              </ul>
            </List>
          </>
        )}
      </Shown>
    </Panel>
  );
}
