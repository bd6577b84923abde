/** The dead letters of a key: read, published again, or deleted. */
import { useSignal } from '@preact/signals';
import { api, read } from '../api/client.ts';
import { readKeys } from '../api/lists.ts';
import { organizationId } from '../api/session.ts';
import type { DeadLetter } from '../api/types.ts';
import { ConfirmButton } from '../parts/dialog.tsx';
import { escaped } from '../parts/escaped.ts';
import { CallButton, Choices, SelectField } from '../parts/form.tsx';
import { localTime, Time } from '../parts/format.tsx';
import { Empty, List, Shown, useLoad } from '../parts/load.tsx';
import { Code, Heading, Panel } from '../parts/ui.tsx';
import { setQuery, url } from '../router.tsx';
import { T } from '../texts.ts';

const PAGE = 50;

/** The dead letters of the key that the reader chooses. */
export function DeadLettersScreen() {
  const loaded = useLoad(`keys ${organizationId.value}`, readKeys);
  return (
    <>
      <Heading title={T.deadLetters.title} />
      <p class="muted">{T.deadLetters.hint}</p>
      <Shown loaded={loaded}>
        {(all) => {
          const keys = all.filter(({ isActive }) => isActive);
          const key = keys.find(({ id }) => id === url.value.searchParams.get('key')) ?? keys[0];
          if (!key) return <Empty>{T.keys.none}</Empty>;
          return (
            <>
              <SelectField
                label={T.webhooks.key}
                value={key.id}
                onChange={(event) => setQuery({ key: event.currentTarget.value })}
              >
                <Choices chosen={key.id} of={keys} />
              </SelectField>
              <DeadLetters key={key.id} keyId={key.id} />
            </>
          );
        }}
      </Shown>
    </>
  );
}

/** Reads the first letters: as many as are shown. */
async function readLetters(keyId: string, count: number) {
  const letters: DeadLetter[] = [];
  let after: string | undefined;
  for (;;) {
    const query = { keyId, limit: PAGE, ...(after === undefined ? {} : { after }) };
    const { deadLetters, next } = await read(api.GET('/api/v1/vcp/dead-letters', { params: { query } }));
    letters.push(...deadLetters);
    if (next === null || letters.length >= count) return { letters, hasMore: next !== null };
    after = next;
  }
}

export function DeadLetters({ keyId }: { keyId: string }) {
  const count = useSignal(PAGE);
  const loaded = useLoad(`dead letters ${keyId}`, () => readLetters(keyId, count.value), 30_000);
  return (
    <Panel title={T.deadLetters.title}>
      <Shown loaded={loaded}>
        {({ letters, hasMore }) => (
          <List of={letters} none={T.deadLetters.none}>
            <ul class="plain-list">
              {letters.map((letter) => (
                <Letter key={letter.id} letter={letter} keyId={keyId} after={loaded.after} />
              ))}
            </ul>
            {hasMore && (
              <CallButton
                call={async () => {
                  count.value = letters.length + PAGE;
                  await loaded.reload();
                }}
              >
                {T.common.more}
              </CallButton>
            )}
          </List>
        )}
      </Shown>
    </Panel>
  );
}

function Letter({
  letter: { id, deadLetteredAt, routingKey, reason, body, encoding, isHeld },
  keyId,
  after,
}: {
  letter: DeadLetter;
  keyId: string;
  after: (call: Promise<unknown>) => Promise<void>;
}) {
  const at = { params: { path: { id }, query: { keyId } } };
  const about = `${localTime(new Date(deadLetteredAt))} ${escaped(routingKey)}`;
  return (
    <li>
      <details>
        <summary>
          <Time at={deadLetteredAt} /> <code>{escaped(routingKey)}</code> {escaped(reason)}
        </summary>
        {isHeld && <p class="notice">{T.deadLetters.held}</p>}
        <Code label={encoding === 'utf8' ? T.deadLetters.text : T.deadLetters.bytes} text={body} />
        <div class="actions">
          <CallButton
            about={about}
            call={() => after(read(api.POST('/api/v1/vcp/dead-letters/{id}/requeue', at)))}
          >
            {T.deadLetters.putBack}
          </CallButton>
          <ConfirmButton
            label={T.common.delete}
            about={about}
            asks={T.deadLetters.deleteHint}
            call={() => after(read(api.DELETE('/api/v1/vcp/dead-letters/{id}', at)))}
          />
        </div>
      </details>
    </li>
  );
}
