/**
 * The kinds of rule of which imports.test.ts makes its table. A rule lists names with spaces between them: folders
 * (`worker/auth/`), files (`worker/env.ts`), the files of one name in any folder (two stars, a slash and `rows.ts`)
 * and, among imports, packages with all their paths (`zod`), all packages (`*`), schemes (`node:`) and COMPUTED.
 * `type:worker/env.ts` is what `import type` takes of that file, `export:worker/env.ts` the values that
 * `export from` passes on.
 */
import { posix } from 'node:path';
import { circlesOf, type Import, importsOf, linesOfMember, type Source, stringsOf } from './import-graph.ts';

const PACKAGE = /^(@[\w.-]+\/)?[\w][\w.-]*(\/|$)/;

/** A sentence, the paths that it names, and what breaks it among some sources. */
export interface Rule {
  title: string;
  paths: string[];
  offenders(sources: Source[]): string[];
}

/** The files to which a rule holds. */
interface Where {
  in: string;
  but?: string;
}

/** What the files of each folder may import, and nothing else. A file keeps to the narrowest line that has it. */
export function onlyImports(table: Record<string, string>): Rule[] {
  const keys = Object.keys(table);
  return Object.entries(table).map(([key, names]) => {
    const but = keys.filter((other) => other !== key && isAmong(other, key)).join(' ');
    return importRule(
      `${key} imports only what its line names`,
      { in: key, but },
      names,
      (found) => !reaches(found, names),
    );
  });
}

/** What no file may import, not even as a type. */
export function neverImport(title: string, { names, ...where }: Where & { names: string }): Rule {
  return importRule(title, where, names, (found) => reaches(found, names));
}

/** That each relative import names its file with its ending, by which alone rules and circles know a file. */
export function fullNames(title: string, where: Where): Rule {
  return importRule(title, where, '', ({ target }) => target !== undefined && !/\.\w+$/.test(target));
}

/** That no file which belongs to one side, or imports of it, imports of another side. */
export function apart(title: string, { sides, ...where }: Where & { sides: string[] }): Rule {
  return rule(title, where, sides.join(' '), (source) => {
    const own = sides.find((side) => isAmong(source.file, side));
    const met = importsOf(source).filter((found) =>
      sides.some((side) => side !== own && reaches(found, side)),
    );
    const others = sides.filter((side) => met.some((found) => reaches(found, side)));
    return own || others.length > 1 ? met.map(arrow) : [];
  });
}

/** That no member expression ends in these names, each offender as `file:line`. */
export function noMember(title: string, { member, ...where }: Where & { member: string }): Rule {
  return rule(title, where, '', (source) =>
    linesOfMember(source, ...member.split('.')).map((line) => `${source.file}:${line}`),
  );
}

/** That no string has this word, whether it is imported, resolved or part of a path; comments may speak of it. */
export function noMention(title: string, { word, ...where }: Where & { word: string }): Rule {
  const pattern = new RegExp(`\\b${word}\\b`);
  return rule(title, where, '', (source) =>
    stringsOf(source)
      .filter((text) => pattern.test(text))
      .map((text) => `${source.file} -> ${text}`),
  );
}

/** That no file is longer than this. */
export function atMost(title: string, { lines: most, ...where }: Where & { lines: number }): Rule {
  return rule(title, where, '', ({ file, text }) => {
    const lines = text.replace(/\n$/, '').split('\n').length;
    return lines > most ? [`${file}: ${lines} lines`] : [];
  });
}

/** That no circle of imports goes through these files, each one as `a -> b -> a`. */
export function noCircles(title: string, where: Where): Rule {
  return {
    title,
    paths: pathsOf(where),
    offenders: (sources) =>
      circlesOf(sources.filter(holdsFor(where))).map((circle) => [...circle, circle[0]].join(' -> ')),
  };
}

/** Whether a path is one of these names. */
export function isAmong(path: string, names: string): boolean {
  return words(names).some((name) => {
    if (name.startsWith('**/')) return posix.basename(path) === name.slice('**/'.length);
    return path === name || (name.endsWith('/') && `${path}/`.startsWith(name));
  });
}

function importRule(
  title: string,
  where: Where,
  names: string,
  isOffender: (found: Import) => boolean,
): Rule {
  return rule(title, where, names, (source) => importsOf(source).filter(isOffender).map(arrow));
}

function rule(title: string, where: Where, names: string, offendersIn: (source: Source) => string[]): Rule {
  return {
    title,
    paths: pathsOf(where, names),
    offenders: (sources) => [...new Set(sources.filter(holdsFor(where)).flatMap(offendersIn))],
  };
}

function holdsFor({ in: within, but = '' }: Where): (source: Source) => boolean {
  return ({ file }) => isAmong(file, within) && !isAmong(file, but);
}

function pathsOf({ in: within, but = '' }: Where, names = ''): string[] {
  return words(`${within} ${but} ${names}`)
    .map((name) => split(name).what)
    .filter(isPath);
}

function reaches(found: Import, names: string): boolean {
  return words(names).some((name) => {
    const { as, what } = split(name);
    if (as === 'type' && !found.typeOnly) return false;
    if (as === 'export' && (found.typeOnly || found.form !== 're-export')) return false;
    if (isPath(what)) return found.target !== undefined && isAmong(found.target, what);
    if (what === '*') return PACKAGE.test(found.specifier);
    return what.endsWith(':') ? found.specifier.startsWith(what) : isAmong(found.specifier, `${what}/`);
  });
}

function words(names: string): string[] {
  return names.split(/\s+/).filter((word) => word !== '');
}

function split(name: string): { as: string | undefined; what: string } {
  const [, as, what = name] = /^(type|export):(.+)$/.exec(name) ?? [];
  return { as, what };
}

function isPath(name: string): boolean {
  return name.endsWith('/') || name.endsWith('.ts');
}

function arrow({ file, specifier }: Import): string {
  return `${file} -> ${specifier}`;
}
