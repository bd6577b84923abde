/** What a new organization does first: its steps, until all are done. */
import { api, read } from '../api/client.ts';
import { may, organizationId } from '../api/session.ts';
import { useLoad } from '../parts/load.tsx';
import { Panel, Step } from '../parts/ui.tsx';
import { T } from '../texts.ts';

interface Done {
  device: boolean;
  /** Undefined: only an ORG_ADMIN sees the keys. */
  key: boolean | undefined;
}

async function readDone(): Promise<Done> {
  const [devices, keys] = await Promise.all([
    read(api.GET('/api/v1/devices', { params: { query: { limit: 100 } } })),
    may('ORG_ADMIN')
      ? read(api.GET('/api/v1/partner/api-keys', { params: { query: { limit: 1 } } }))
      : undefined,
  ]);
  const device = devices.data.some(({ provisionedAt }) => provisionedAt !== null);
  return { device, key: keys && keys.data.length > 0 };
}

export function FirstRun({ hasSite }: { hasSite: boolean }) {
  // The steps are done on other screens: the panel looks again when the reader comes back.
  const { data } = useLoad(`first run ${organizationId.value}`, readDone);
  if (!data || (hasSite && data.device && data.key !== false)) return null;
  return (
    <Panel title={T.firstRun.title}>
      <ol class="steps">
        <Step isDone={hasSite} title={T.firstRun.site}>
          {T.firstRun.siteHint}
        </Step>
        <Step isDone={data.device} title={<a href="/devices">{T.firstRun.device}</a>}>
          {T.firstRun.deviceHint}
        </Step>
        <Step
          isDone={data.key ?? false}
          title={data.key === undefined ? T.firstRun.key : <a href="/keys">{T.firstRun.key}</a>}
        >
          {T.firstRun.keyHint}
        </Step>
      </ol>
    </Panel>
  );
}
