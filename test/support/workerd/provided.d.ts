import 'vitest';

/** What `vitest.config.ts` provides to tests. */
declare module 'vitest' {
  export interface ProvidedContext {
    modelSteps: number;
    modelSeed: number;
    sightPairs: number;
    sightSeed: number;
  }
}
