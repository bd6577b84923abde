/** Types of the part of Node's module that the metered Worker uses; workerd provides it under nodejs_compat. */
declare module 'node:async_hooks' {
  export class AsyncLocalStorage<Store> {
    run<Value>(store: Store, work: () => Value): Value;
    getStore(): Store | undefined;
  }
}
