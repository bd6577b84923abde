/**
 * `npm run sitewire -- mail` prints the last mail that the running stack has sent; `npm run sitewire -- mail jana@example.com`
 * prints the last one to that address.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { showHelp } from './show-help.ts';
import { readStack } from './stack-file.ts';

const USAGE = 'npm run sitewire -- mail [<recipient>]: prints the last mail that the running stack has sent';
showHelp(USAGE);

const [recipient, ...rest] = process.argv.slice(2);
if (recipient?.startsWith('-') || rest.length > 0) {
  console.error(USAGE);
  process.exit(2);
}
try {
  const { mail } = readStack();
  if (mail === null) throw new Error('This stack sends mail to a mail server: look there (SMTP_URL is set)');
  const last = readdirSync(mail)
    .filter((name) => name.endsWith('.eml'))
    .sort()
    .map((name) => readFileSync(join(mail, name), 'utf8'))
    .findLast((text) => recipient === undefined || isTo(text, recipient));
  if (last === undefined) throw new Error(`no mail${recipient === undefined ? '' : ` to ${recipient}`} yet`);
  console.log(last);
} catch (error) {
  console.error((error as Error).message);
  process.exit(1);
}

function isTo(message: string, address: string): boolean {
  const to = /^To: (.*)$/im.exec(message)?.[1] ?? '';
  return to.toLowerCase().includes(address.toLowerCase());
}
