/** What a key's messages were dead-lettered for; put back or delete. */
import { api, read } from '../api/client.ts';
import type { DeadLetter } from '../api/types.ts';
import { Time } from '../parts/format.tsx';
import { Empty, Shown, useLoad } from '../parts/load.tsx';
import { CallButton, Code, Panel } from '../parts/ui.tsx';
import { T } from '../texts.ts';

const SHOWN = 50;

export function DeadLetters({ keyId }: { keyId: string }) {
  const query = { keyId, limit: SHOWN };
  const loaded = useLoad(
    `dead letters ${keyId}`,
    async () => await read(api.GET('/api/v1/vcp/dead-letters', { params: { query } })),
    30_000,
  );
  return (
    <Panel title={T.deadLetters.title}>
      <Shown loaded={loaded}>
        {({ deadLetters, next }) =>
          deadLetters.length === 0 ? (
            <Empty>{T.deadLetters.none}</Empty>
          ) : (
            <>
              <ul class="plain-list">
                {deadLetters.map((letter) => (
                  <Letter key={letter.id} letter={letter} keyId={keyId} reload={loaded.reload} />
                ))}
              </ul>
              {next !== null && <p class="muted">{T.deadLetters.more(SHOWN)}</p>}
            </>
          )
        }
      </Shown>
    </Panel>
  );
}

function Letter({
  letter,
  keyId,
  reload,
}: {
  letter: DeadLetter;
  keyId: string;
  reload: () => Promise<void>;
}) {
  const at = { params: { path: { id: letter.id }, query: { keyId } } };
  const putBack = async () => {
    await read(api.POST('/api/v1/vcp/dead-letters/{id}/requeue', at));
    await reload();
  };
  const remove = async () => {
    await read(api.DELETE('/api/v1/vcp/dead-letters/{id}', at));
    await reload();
  };
  return (
    <li>
      <details>
        <summary>
          <Time at={letter.deadLetteredAt} /> <code>{letter.routingKey}</code> {letter.reason}
        </summary>
        <Code label={T.deadLetters.text} text={letter.body} />
        <div class="actions">
          <CallButton call={putBack}>{T.deadLetters.putBack}</CallButton>
          <CallButton call={remove} danger>
            {T.common.delete}
          </CallButton>
        </div>
      </details>
    </li>
  );
}
