/** The product's Worker with a counter of the statements that its requests send to D1, served at /bench/queries. */
import type { Env } from '../../../durable-objects/env.ts';
import worker from '../../../worker/index.ts';

export { Metrics, RequestCounter, Site, Vhost } from '../../../worker/index.ts';

let queries = 0;

/** Counts round trips: each executed statement or batch is one. */
function counted(database: D1Database): D1Database {
  const count = <Method extends (...given: never[]) => unknown>(target: object, method: Method): Method =>
    ((...given: never[]) => {
      queries += 1;
      return method.apply(target, given);
    }) as Method;
  const statement = (inner: D1PreparedStatement): D1PreparedStatement =>
    new Proxy(inner, {
      get: (target, name) => {
        const value = Reflect.get(target, name);
        if (typeof value !== 'function') return value;
        if (name === 'bind') return (...given: unknown[]) => statement(target.bind(...given));
        return ['all', 'run', 'raw', 'first'].includes(String(name))
          ? count(target, value)
          : value.bind(target);
      },
    });
  return new Proxy(database, {
    get: (target, name) => {
      if (name === 'prepare') return (query: string) => statement(target.prepare(query));
      const value = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      return name === 'batch' ? count(target, value) : value.bind(target);
    },
  });
}

export default {
  fetch: (request: Request, env: Env, context: ExecutionContext) => {
    if (new URL(request.url).pathname === '/bench/queries') return new Response(String(queries));
    return worker.fetch(request, { ...env, DB: counted(env.DB) }, context);
  },
};
