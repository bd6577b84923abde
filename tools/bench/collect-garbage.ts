/** Loaded into the measured bridge: SIGUSR2 starts a garbage collection, so that only memory in use is counted. */
process.on('SIGUSR2', () => globalThis.gc?.());
