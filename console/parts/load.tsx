/** Loads data for a screen, and shows what it waits for or why it has none. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { Role } from '../../protocol/enums.ts';
import { type CallError, callError, mayPoll } from '../api/client.ts';
import { may } from '../api/session.ts';
import { T } from '../texts.ts';
import { Heading } from './ui.tsx';

export interface Loaded<Data> {
  /** Undefined until the first answer. */
  data: Data | undefined;
  error: CallError | undefined;
  reload(): Promise<void>;
  /** Makes a call, and then loads again. */
  after(call: Promise<unknown>): Promise<void>;
  /** Replaces the data without a call. */
  set(data: Data): void;
}

/** Calls `load` for each `key`. `everyMs`: again after this time, while the page is visible. */
export function useLoad<Data>(key: string, load: () => Promise<Data>, everyMs?: number): Loaded<Data> {
  const data = useSignal<Data | undefined>(undefined);
  const error = useSignal<CallError | undefined>(undefined);
  const current = useRef(key);
  const newest = useRef(load);
  newest.current = load;
  const runs = useRef({ begun: 0, shown: 0, open: 0 });
  const run = async (): Promise<void> => {
    const asked = current.current;
    const count = runs.current;
    count.begun += 1;
    count.open += 1;
    const number = count.begun;
    // An answer that comes after one of a later call is out of date.
    const isNewest = () => asked === current.current && number > count.shown;
    try {
      const answer = await newest.current();
      if (!isNewest()) return;
      count.shown = number;
      data.value = answer;
      error.value = undefined;
    } catch (failure) {
      if (isNewest()) error.value = callError(failure);
    } finally {
      count.open -= 1;
    }
  };
  useEffect(() => {
    current.current = key;
    data.value = undefined;
    error.value = undefined;
    void run();
    if (everyMs === undefined) return undefined;
    const timer = setInterval(() => {
      if (mayPoll() && runs.current.open === 0) void run();
    }, everyMs);
    return () => clearInterval(timer);
  }, [key]);
  return {
    data: data.value,
    error: error.value,
    reload: run,
    after: async (call) => {
      await call;
      await run();
    },
    set: (next) => {
      data.value = next;
    },
  };
}

/** Shows the data, or that it loads, fails or may not be seen. An error beside data is a line above it. */
export function Shown<Data>({
  loaded,
  children,
}: {
  loaded: Loaded<Data>;
  children: (data: Data) => ComponentChildren;
}) {
  const { data, error, reload } = loaded;
  if (data === undefined && error) return <Failure error={error} retry={reload} />;
  if (data === undefined)
    return (
      <p class="loading" role="status">
        {T.common.loading}
      </p>
    );
  return (
    <>
      {error && <Failure error={error} retry={reload} />}
      {children(data)}
    </>
  );
}

export function Failure({ error, retry }: { error: CallError; retry?: () => unknown }) {
  const isForbidden = error.status === 403;
  return (
    <div class="failure" role="alert">
      <strong>
        {isForbidden ? T.errors.forbidden : error.status === 404 ? T.errors.notFound : T.errors.failed}
      </strong>
      <p>{error.message}</p>
      {retry && !isForbidden && error.status !== 404 && (
        <button type="button" onClick={() => void retry()}>
          {T.common.retry}
        </button>
      )}
    </div>
  );
}

/**
 * A screen with a heading, a button that makes a new one for those who have the role, and what was loaded. `actions`: more
 * in the heading; `above`: what is shown before the list, for example the open dialog.
 */
export function ListScreen<Data>({
  title,
  create: { role, label, open },
  actions,
  above,
  loaded,
  children,
}: {
  title: string;
  create: { role: Role; label: string; open: () => void };
  actions?: ComponentChildren;
  above?: ComponentChildren;
  loaded: Loaded<Data>;
  children: (data: Data) => ComponentChildren;
}) {
  return (
    <>
      <Heading title={title}>
        {actions}
        {may(role) && (
          <button type="button" class="primary" onClick={open}>
            {label}
          </button>
        )}
      </Heading>
      {above}
      <Shown loaded={loaded}>{children}</Shown>
    </>
  );
}

/** What shows a list; `none`: what it says in its place if the list is empty. */
export function List({
  of,
  none,
  children,
}: {
  of: readonly unknown[];
  none: string;
  children: ComponentChildren;
}) {
  return of.length === 0 ? <Empty>{none}</Empty> : children;
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}
