/** `--help` of the commands in package.json. */

/** If the command was asked for help, prints its usage and ends it. */
export function showHelp(usage: string): void {
  if (!process.argv.slice(2).some((argument) => argument === '--help' || argument === '-h')) return;
  console.log(usage);
  process.exit(0);
}
