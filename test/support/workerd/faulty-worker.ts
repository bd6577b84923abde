/**
 * The product's Worker that asks the control server of the test before each step of a publish. Until the server
 * answers, the object that asked waits. At these steps, a crash could leave two objects with different states.
 */
import type { Env } from '../../../durable-objects/env.ts';
import type {
  OutboxEvent,
  PassingEvent,
  SubmissionBatch,
  SubmitAnswer,
} from '../../../durable-objects/rpc.ts';
import { Site as ProductSite } from '../../../durable-objects/site.ts';
import { Vhost as ProductVhost } from '../../../durable-objects/vhost.ts';
import worker from '../../../worker/index.ts';
import type { Step } from '../step.ts';

export { Metrics } from '../../../durable-objects/metrics.ts';
export { RequestCounter } from '../../../durable-objects/request-counter.ts';
export { Watches } from '../../../durable-objects/watches.ts';

interface FaultyEnv extends Env {
  CONTROL_URL: string;
}

type FrameKind = 'stored' | 'deliver' | 'command';

export class Site extends ProductSite {
  constructor(ctx: DurableObjectState, env: FaultyEnv) {
    askBeforeSending(ctx, 'command', () => pass(env, 'before-dispatch'));
    super(ctx, { ...env, VHOST: slowVhosts(env) });
  }

  override async submit(batch: SubmissionBatch): Promise<SubmitAnswer> {
    const answer = await super.submit(batch);
    await pass(this.env as FaultyEnv, 'after-commit', batch.siteId);
    return answer;
  }
}

export class Vhost extends ProductVhost {
  constructor(ctx: DurableObjectState, env: FaultyEnv) {
    askBeforeSending(ctx, 'stored', () => pass(env, 'before-confirm'));
    askBeforeSending(ctx, 'deliver', () => pass(env, 'before-delivery'));
    super(ctx, { ...env, SITE: slowSites(env) });
  }
}

export default worker;

/** The sites as the Vhost calls them: it asks before the call and after the answer. */
function slowSites(env: FaultyEnv): Env['SITE'] {
  const get = (id: DurableObjectId) => {
    const stub = env.SITE.get(id);
    const submit = async (batch: SubmissionBatch) => {
      await pass(env, 'before-rpc', batch.siteId);
      const answer = await stub.submit(batch);
      await pass(env, 'before-vhost-stored', batch.siteId);
      return answer;
    };
    return { submit };
  };
  const namespace = { idFromName: (name: string) => env.SITE.idFromName(name), get };
  return namespace as unknown as Env['SITE'];
}

/** The vhosts as the Site calls them: it asks before it sends events. */
function slowVhosts(env: FaultyEnv): Env['VHOST'] {
  const get = (id: DurableObjectId) => {
    const stub = env.VHOST.get(id);
    const receive = async (siteId: string, events: OutboxEvent[]) => {
      await pass(env, 'before-receive', siteId);
      return await stub.receive(siteId, events);
    };
    const receivePassing = (siteId: string, events: PassingEvent[]) => stub.receivePassing(siteId, events);
    return { receive, receivePassing };
  };
  const namespace = { idFromName: (name: string) => env.VHOST.idFromName(name), get };
  return namespace as unknown as Env['VHOST'];
}

/** Resolves when the step may continue, or without a control server; rejects when the test wants it to fail. */
async function pass(env: FaultyEnv, step: Step, subject = ''): Promise<void> {
  const url = `${env.CONTROL_URL}/${step}?subject=${subject}`;
  const response = await fetch(url).catch(() => undefined);
  await response?.arrayBuffer().catch(() => {});
  if (response?.status === 500) throw new Error(`${step} fails because a test wants it to`);
}

/** Makes a socket ask before each message with such a frame, and keeps the order of all later messages. */
function askBeforeSending(ctx: DurableObjectState, kind: FrameKind, ask: () => Promise<void>): void {
  const accept = ctx.acceptWebSocket.bind(ctx);
  ctx.acceptWebSocket = (socket, tags) => {
    const send = socket.send.bind(socket);
    let before: Promise<void> | undefined;
    socket.send = (message) => {
      const isAsked = typeof message === 'string' && message.includes(`"kind":"${kind}"`);
      if (!isAsked && !before) {
        send(message);
        return;
      }
      before = Promise.resolve(before)
        .then(() => (isAsked ? ask() : undefined))
        .then(() => send(message))
        .catch(() => {});
      ctx.waitUntil(before);
    };
    accept(socket, tags);
  };
}
