/**
 * Makes the pool do two things once that it otherwise repeats for each object or call.
 * For each new object or entry point it wraps the prototype of the class in one more proxy, so a property of the
 * thousandth object is read through a thousand proxies (workers-sdk issue 15092, fixed there and not released).
 * For each call of an object it asks Vitest's process for the Worker's module, which takes six times as long as the call.
 */

/** Recognizes the pool's own proxies: only their handler calls this function. */
const isPools = ({ get }: ProxyHandler<object>) =>
  get !== undefined && String(get).includes('getUnknownPrototypeKey');

function keepOneProxy(): void {
  const wrapped = new WeakSet<object>();
  globalThis.Proxy = new Proxy(Proxy, {
    construct(Original, [target, handler]: [object, ProxyHandler<object>]) {
      if (!isPools(handler)) return new Original(target, handler);
      if (wrapped.has(target)) return target;
      const proxy = new Original(target, handler);
      wrapped.add(proxy);
      return proxy;
    },
  });
}

interface ModuleNode {
  evaluated: boolean;
  exports: unknown;
}

interface ModuleRunner {
  evaluatedModules: { idToModuleMap: Map<string, ModuleNode> };
  import(id: string): Promise<unknown>;
}

/** Imports a module once, and again only after the runner has loaded a new version of it. */
function keepModules(runner: ModuleRunner): void {
  const load = runner.import.bind(runner);
  const known = new Map<string, { node: ModuleNode; exports: unknown }>();
  runner.import = async (id) => {
    const found = known.get(id);
    if (found?.node.evaluated && found.node.exports === found.exports) return found.exports;
    const exports = await load(id);
    const node = [...runner.evaluatedModules.idToModuleMap.values()].find((one) => one.exports === exports);
    if (node) known.set(id, { node, exports });
    return exports;
  };
}

const DONE = Symbol.for('sitewire.pool');
const { __vitest_mocker__: mocker } = globalThis as unknown as {
  __vitest_mocker__: { moduleRunner: ModuleRunner };
};

if (!(DONE in globalThis)) {
  Object.defineProperty(globalThis, DONE, { value: true });
  keepOneProxy();
  keepModules(mocker.moduleRunner);
}
