/** The ports of the stack on one machine: from the environment, and free before anything starts. */
import { createServer } from 'node:net';

/** An environment variable's port; throws when it is none. 0 takes any that is free. */
export function portOf(name: string, fallback: number): number {
  const text = process.env[name];
  const port = text === undefined ? fallback : Number(text);
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new Error(`${name} must be a port, not "${text}"`);
  return port;
}

/** Throws, with what to do about it, when one of these ports is taken. */
export async function assertFree(ports: Record<string, number>): Promise<void> {
  for (const [name, port] of Object.entries(ports)) {
    if (await isTaken(port)) {
      throw new Error(`port ${port} is taken: stop what listens there, or choose another with ${name}`);
    }
  }
}

function isTaken(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(true);
      else reject(new Error(`port ${port} cannot be used: ${error.message}`));
    });
    server.listen(port, () => server.close(() => resolve(false)));
  });
}
