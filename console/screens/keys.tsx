/** API keys: the list, and the form that makes one. */
import { useSignal } from '@preact/signals';
import { API_KEY_SCOPES, VCP_WRITE_SCOPES } from '../../protocol/scopes.ts';
import { api, read } from '../api/client.ts';
import { platformNow } from '../api/clock.ts';
import { readKeys, readPlants } from '../api/lists.ts';
import { organizationId } from '../api/session.ts';
import type { ApiKeyCreated } from '../api/types.ts';
import { Dialog, useOpen } from '../parts/dialog.tsx';
import { download } from '../parts/download.ts';
import { CallButton, CallForm, Checks, TextField } from '../parts/form.tsx';
import { Ago, Time } from '../parts/format.tsx';
import { List, ListScreen, useLoad } from '../parts/load.tsx';
import { NumberField, numberIn } from '../parts/number-field.tsx';
import { Badge, Code, Pairs, Table } from '../parts/ui.tsx';
import { T } from '../texts.ts';
import { type Tested, TestResult, testKey } from './key-test.tsx';

const PARTNER_SCOPES = ['vcp:connect', 'vcp:read', ...VCP_WRITE_SCOPES] as readonly string[];

export function KeysScreen() {
  const loaded = useLoad(`keys ${organizationId.value}`, readKeys, 15_000);
  const creating = useOpen<true>();
  const created = useOpen<ApiKeyCreated>();
  return (
    <ListScreen
      title={T.keys.title}
      create={{ role: 'ORG_ADMIN', label: T.keys.create, open: () => creating.open(true) }}
      above={
        <>
          {creating.shown && (
            <Dialog title={T.keys.create} close={creating.close} keeps>
              <CreateForm
                done={(key) => {
                  creating.close();
                  created.open(key);
                  void loaded.reload();
                }}
              />
            </Dialog>
          )}
          {created.shown && <Secret created={created.shown} close={created.close} />}
        </>
      }
      loaded={loaded}
    >
      {(keys) => (
        <List of={keys} none={T.keys.none}>
          <Table
            caption={T.keys.title}
            columns={[
              T.keys.name,
              T.keys.partner,
              T.keys.prefix,
              T.keys.scopes,
              T.keys.state,
              T.keys.lastUsed,
              T.keys.expires,
            ]}
          >
            {keys.map((key) => (
              <tr key={key.id}>
                <th scope="row">
                  <a href={`/keys/${key.id}`}>{key.name}</a>
                </th>
                <td class="name">{key.partnerId}</td>
                <td>
                  <code>{key.keyPrefix}</code>
                </td>
                <td>{T.keys.scopeCount(key.scopes.length)}</td>
                <td>
                  <Badge state={key.isActive ? 'ACTIVE' : 'REVOKED'} />
                </td>
                <td>
                  <Ago at={key.lastUsedAt} />
                </td>
                <td>{key.expiresAt ? <Time at={key.expiresAt} /> : T.common.never}</td>
              </tr>
            ))}
          </Table>
        </List>
      )}
    </ListScreen>
  );
}

function CreateForm({ done }: { done: (created: ApiKeyCreated) => void }) {
  const plants = useLoad(`plants ${organizationId.value}`, readPlants);
  const isLimited = useSignal(false);
  const create = async (form: FormData) => {
    const text = (name: string) => String(form.get(name) ?? '').trim();
    const addresses = text('addresses')
      .split(/[\s,]+/)
      .filter((one) => one !== '');
    const days = numberIn(form, 'days') ?? 0;
    const body = {
      name: text('name'),
      partnerId: text('partnerId'),
      scopes: form.getAll('scope') as ApiKeyCreated['apiKey']['scopes'],
      ...(isLimited.value ? { allowedPlantIds: form.getAll('plant').map(String) } : {}),
      ...(addresses.length === 0 ? {} : { allowedIps: addresses }),
      ...(days > 0 ? { expiresAt: new Date(platformNow() + days * 86_400_000).toISOString() } : {}),
    };
    done(await read(api.POST('/api/v1/partner/api-keys', { body })));
  };
  return (
    <CallForm submit={create} label={T.keys.create}>
      <TextField label={T.keys.name} name="name" required maxLength={100} />
      <TextField label={T.keys.partner} hint={T.keys.partnerHint} name="partnerId" required />
      <Checks
        legend={T.keys.scopes}
        name="scope"
        of={API_KEY_SCOPES.filter((scope) => T.scopes[scope] !== undefined).map((scope) => ({
          value: scope,
          label: (
            <>
              <code>{scope}</code> {T.scopes[scope]}
            </>
          ),
          isChecked: PARTNER_SCOPES.includes(scope),
        }))}
      />
      <fieldset>
        <legend>{T.keys.plants}</legend>
        <label class="check">
          <input
            type="checkbox"
            checked={isLimited.value}
            onChange={(event) => {
              isLimited.value = event.currentTarget.checked;
            }}
          />
          <span>{T.keys.onlyThese}</span>
        </label>
        {isLimited.value &&
          plants.data?.map(({ id, name }) => (
            <label key={id} class="check">
              <input type="checkbox" name="plant" value={id} />
              <span>{name}</span>
            </label>
          ))}
      </fieldset>
      <TextField label={T.keys.addresses} hint={T.keys.addressesHint} name="addresses" />
      <NumberField name="days" label={T.keys.days} hint={T.keys.daysHint} min={1} max={3_650} integer />
    </CallForm>
  );
}

/** The secrets of a new key, which are shown once. */
function Secret({ created, close }: { created: ApiKeyCreated; close: () => void }) {
  const { key, signingKey, apiKey, connectionBundle } = created;
  const tested = useSignal<Tested | undefined>(undefined);
  const path = { params: { path: { id: apiKey.id } } };
  const test = async () => {
    tested.value = await testKey(apiKey.id, key);
  };
  const stored = async () => {
    await read(api.POST('/api/v1/partner/api-keys/{id}/acknowledge-bundle', path));
    close();
  };
  return (
    <Dialog title={T.keys.once} close={close} keeps>
      <p class="notice">{T.keys.onceHint}</p>
      <Code label={T.keys.key} text={key} />
      <Code label={T.keys.signingKey} text={signingKey} />
      {connectionBundle && (
        <>
          <Pairs
            of={[
              [T.keys.host, `${connectionBundle.amqps.host}:${connectionBundle.amqps.port}`],
              [T.keys.vhost, connectionBundle.amqps.vhost],
              [T.keys.username, connectionBundle.amqps.username],
            ]}
          />
          {connectionBundle.amqps.caCertificate && (
            <p>
              {T.keys.caHint}{' '}
              <button
                type="button"
                class="small"
                onClick={() => download('ca.pem', connectionBundle.amqps.caCertificate ?? '')}
              >
                {T.keys.ca}
              </button>
            </p>
          )}
          <Code label="Python" text={connectionBundle.codeSamples.python} />
          <Code label="Node" text={connectionBundle.codeSamples.node} />
          <Code label="curl" text={connectionBundle.codeSamples.curl} />
        </>
      )}
      <TestResult result={tested.value} />
      <div class="actions">
        <button
          type="button"
          onClick={() => download(`${apiKey.name}.json`, JSON.stringify(created, null, 2))}
        >
          {T.keys.download}
        </button>
        {connectionBundle && <CallButton call={test}>{T.keys.test}</CallButton>}
        <CallButton call={stored}>{T.keys.stored}</CallButton>
      </div>
    </Dialog>
  );
}
