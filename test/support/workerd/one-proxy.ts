/**
 * The pool wraps the prototype of its classes in one more proxy with each object or entry point that is made (workers-sdk issue
 * 15092, mended there and not released): what is read of the thousandth goes through a thousand. Here the first one is kept.
 */
const wrapped = new WeakSet<object>();

/** Of the pool's proxies alone: its handler asks this function. */
const isPools = ({ get }: ProxyHandler<object>) =>
  get !== undefined && String(get).includes('getUnknownPrototypeKey');

const ONE_LAYER = Symbol.for('sitewire.one-layer');

if (!(ONE_LAYER in globalThis)) {
  Object.defineProperty(globalThis, ONE_LAYER, { value: true });
  globalThis.Proxy = new Proxy(Proxy, {
    construct(Original, [target, handler]: [object, ProxyHandler<object>]) {
      if (!isPools(handler)) {
        return new Original(target, handler);
      }
      if (wrapped.has(target)) {
        return target;
      }
      const proxy = new Original(target, handler);
      wrapped.add(proxy);
      return proxy;
    },
  });
}
