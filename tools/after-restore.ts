/**
 * `npm run sitewire -- admin save-audit` and `after-restore`: what happened after the time to which time travel sets D1 back is
 * saved as audit events before, and applied again afterwards, with what the objects know.
 */
import { open, readFile } from 'node:fs/promises';
import * as z from 'zod';
import { EVENTS_PER_REQUEST, lastOfEach, type SavedEvent, savedEvent } from '../protocol/after-restore.ts';
import type { AuditEvent } from '../protocol/audit.ts';
import { parseInstant } from '../protocol/ids.ts';
import type { LongPage, Page } from '../protocol/page.ts';
import type { Operator } from './admin-client.ts';

const header = z.strictObject({
  file: z.literal('sitewire-audit'),
  since: z.string(),
  events: z.int().min(0),
});

interface Line {
  isApplied: boolean;
  text: string;
}

interface Done {
  count: number;
  lines: Line[];
  next: string | null;
}

/** Writes the audit events of all organizations since a time to a new file that only its owner can read. */
export async function saveAudit(operator: Operator, since: string, path: string): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    const events: SavedEvent[] = [];
    for (const organizationId of [null, ...(await organizationIds(operator))])
      events.push(...(await eventsOf(operator, organizationId, since)));
    events.sort((a, b) => a.event.createdAt.localeCompare(b.event.createdAt));
    const head: z.infer<typeof header> = { file: 'sitewire-audit', since, events: events.length };
    for (const line of [head, ...events]) await file.write(`${JSON.stringify(line)}\n`);
    await file.sync();
    console.log(`${events.length} audit events since ${since} saved in ${path}`);
  } finally {
    await file.close();
  }
}

async function organizationIds(operator: Operator): Promise<string[]> {
  const ids: string[] = [];
  for (let page = 1; ; page++) {
    const path = `/organizations?page=${page}&limit=100`;
    const { data, meta } = await operator.call<Page<{ id: string }>>('GET', path);
    ids.push(...data.map(({ id }) => id));
    if (page >= meta.totalPages) return ids;
  }
}

/** Oldest first. */
async function eventsOf(
  operator: Operator,
  organizationId: string | null,
  since: string,
): Promise<SavedEvent[]> {
  const events: SavedEvent[] = [];
  const whose = organizationId === null ? '' : `&organizationId=${organizationId}`;
  for (let before = ''; ; ) {
    const path = `/audit-events?limit=100&from=${encodeURIComponent(since)}${whose}${before}`;
    const { data, meta } = await operator.call<LongPage<AuditEvent>>('GET', path);
    events.push(...data.map((event) => ({ organizationId, event })));
    if (meta.next === null) return events.reverse();
    before = `&before=${encodeURIComponent(meta.next)}`;
  }
}

/**
 * Ends all sessions and mailed tokens, applies again what the objects and the saved events know, and prints what it did
 * and could not do. It can be run again.
 */
export async function afterRestore(operator: Operator, since: string, auditPath?: string): Promise<void> {
  const events = auditPath === undefined ? undefined : await readSaved(auditPath, since);
  let open = 0;
  const say = ({ isApplied, text }: Line) => {
    if (!isApplied) open += 1;
    console.log(`${isApplied ? 'applied    ' : 'not applied'}  ${text}`);
  };
  const step = async (name: string, more: Record<string, unknown> = {}): Promise<Done> => {
    const done = await operator.call<Done>('POST', '/after-restore', { step: name, ...more });
    done.lines.forEach(say);
    return done;
  };

  let sessions = 0;
  for (let isMore = true; isMore; ) {
    const { count, next } = await step('end-access', { since });
    sessions += count;
    isMore = next !== null;
  }
  say({ isApplied: true, text: `all ${sessions} sessions, support sessions and mailed tokens: ended` });
  if (events) await applyEvents(events, step, say);
  for (let after: string | null = ''; after !== null; )
    ({ next: after } = await step('ask-objects', after === '' ? {} : { after }));
  // The last step, because the steps before compare the versions of objects with those of the restored time.
  const { count } = await step('raise-versions');
  say({ isApplied: true, text: `the version of ${count} organizations: raised` });
  if (!events)
    say({
      isApplied: false,
      text: 'members, roles, accounts, passwords, certificates and deletions since then: give the saved audit with --audit',
    });
  console.log(open === 0 ? 'Nothing is left to do.' : `${open} lines are left for you to do.`);
}

type Step = (name: string, more: Record<string, unknown>) => Promise<Done>;

async function applyEvents(
  events: readonly SavedEvent[],
  step: Step,
  say: (line: Line) => void,
): Promise<void> {
  let putBack = 0;
  for (const some of chunks(events)) putBack += (await step('put-back', { events: some })).count;
  say({ isApplied: true, text: `${putBack} of ${events.length} saved audit events: put back` });
  const last = lastOfEach(events);
  for (const some of chunks(last.filter(({ is }) => is === 'apply').map(({ saved }) => saved)))
    await step('apply', { events: some });
  for (const { saved, is } of last) {
    const { event: name, target, createdAt } = saved.event;
    if (is === 'lost')
      say({
        isApplied: false,
        text: `${name} ${target?.id} of ${createdAt}: not in D1 any more, repeat it if needed`,
      });
  }
}

function chunks<Item>(items: readonly Item[]): Item[][] {
  return Array.from({ length: Math.ceil(items.length / EVENTS_PER_REQUEST) }, (_, index) =>
    items.slice(index * EVENTS_PER_REQUEST, (index + 1) * EVENTS_PER_REQUEST),
  );
}

/** Reads a file of `saveAudit`. Throws for one that is not whole, or begins after `since`. */
async function readSaved(path: string, since: string): Promise<SavedEvent[]> {
  const fault = (text: string) => new Error(`${path}: ${text}: save the audit again`);
  const text = await readFile(path, 'utf8');
  const [first = '', ...lines] = text.trimEnd().split('\n');
  const head = header.safeParse(parsed(first));
  if (!head.success) throw fault('its first line is not the header of a saved audit');
  if ((parseInstant(head.data.since) ?? 0) > (parseInstant(since) ?? 0))
    throw new Error(`${path}: it begins at ${head.data.since}, after ${since}`);
  const events = lines.slice(0, head.data.events).map((line) => savedEvent.safeParse(parsed(line)).data);
  const wrong = events.indexOf(undefined);
  if (!text.endsWith('\n') || lines.length < head.data.events) throw fault('the file was cut off');
  if (wrong !== -1) throw fault(`line ${wrong + 2} is not an audit event`);
  if (lines.length > events.length) throw fault('it has lines after its last event');
  return events.filter((event) => event !== undefined);
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
