/**
 * `npm run sitewire -- <tool> …`: the tools for people, as one command line. Those that need a stack find it in the same
 * way: the one that `npm start` runs (`stack-file.ts`), or a deployment by `--url`.
 */
import { showHelp } from './show-help.ts';

const ON_A_STACK = {
  send: ['./send.ts', 'publishes a signed command, and prints what happens to it'],
  simulate: ['./simulator.ts', 'changes how the simulated plant behaves'],
  gateway: ['./gateway.ts', 'runs a gateway that prints what it does, or writes its credentials'],
  token: ['./token.ts', 'prints a token of a device, or one for REST'],
  mail: ['./mail.ts', 'prints the last mail that the stack has sent'],
  webhook: ['../examples/partner/webhook.mjs', 'receives events as webhooks, and verifies them'],
  check: ['./device-check.ts', "shows what is right and wrong in a device's messages"],
  replay: ['./replay.ts', 'derives the decisions of an exported day again'],
  admin: ['./admin.ts', 'what the operator of a deployment does: organizations, backups, checks, …'],
} as const;
const FOR_DEVELOPERS = {
  examples: ['./reference/examples.ts', 'records the answers of the REST reference again'],
  conformance: ['./conformance.ts', 'compares the AMQP listener with RabbitMQ, and runs ten stock clients'],
  fuzz: ['./fuzz.ts', 'sends random frames to the AMQP engine'],
  model: ['./model.ts', 'compares the plan of a site with its model'],
  week: ['./week.ts', 'compares a week of telemetry with an independent calculation'],
} as const;
const TOOLS: Record<string, readonly [file: string, does: string]> = { ...ON_A_STACK, ...FOR_DEVELOPERS };

const linesOf = (tools: typeof TOOLS) =>
  Object.entries(tools).map(([name, [, does]]) => `  ${name.padEnd(12)} ${does}`);
export const USAGE = [
  'npm run sitewire -- <tool> …, with --help for what a tool takes',
  ...['', 'on the stack of npm start, or on a deployment:', ...linesOf(ON_A_STACK)],
  ...['', 'for developers of Sitewire:', ...linesOf(FOR_DEVELOPERS)],
].join('\n');

const [name = ''] = process.argv.slice(2);
const file = Object.hasOwn(TOOLS, name) ? TOOLS[name]?.[0] : undefined;
if (file === undefined) {
  showHelp(USAGE);
  console.error(name === '' ? USAGE : `unknown tool "${name}"\n\n${USAGE}`);
  process.exit(2);
}
// The tool reads its own arguments.
process.argv.splice(2, 1);
await import(file);
