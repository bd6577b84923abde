/** The part of Node's module that the metered Worker uses; workerd has it under nodejs_compat. */
declare module 'node:async_hooks' {
  export class AsyncLocalStorage<Store> {
    run<Value>(store: Store, work: () => Value): Value;
    getStore(): Store | undefined;
  }
}
