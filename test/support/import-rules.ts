/**
 * The kinds of rule that make up the table of imports.test.ts. A rule lists names separated by spaces:
 * folders (`worker/auth/`), files (`worker/env.ts`), files of one name in any folder (two stars, a slash and
 * `rows.ts`) and, among imports, packages with all their paths (`zod`), all packages (`*`), schemes (`node:`)
 * and COMPUTED. `type:worker/env.ts` means the types that `import type` takes from that file,
 * `export:worker/env.ts` the values that `export from` passes on.
 */
import { posix } from 'node:path';
import { circlesOf, type Import, importsOf, linesOfMember, type Source, stringsOf } from './import-graph.ts';

const PACKAGE = /^(@[\w.-]+\/)?[\w][\w.-]*(\/|$)/;

/** A rule: its sentence, the paths that it names, and the function that finds violations in sources. */
export interface Rule {
  title: string;
  paths: string[];
  offenders(sources: Source[]): string[];
}

/** The files to which a rule applies. */
interface Where {
  in: string;
  but?: string;
}

/**
 * The only permitted imports for the files of each folder. The most specific line that contains a file
 * applies to it.
 */
export function onlyImports(table: Record<string, string>): Rule[] {
  const keys = Object.keys(table);
  return Object.entries(table).map(([key, names]) => {
    const but = keys.filter((other) => other !== key && isAmong(other, key)).join(' ');
    return importRule(
      `${key} imports only permitted paths`,
      { in: key, but },
      names,
      (found) => !reaches(found, names),
    );
  });
}

/** Imports that are forbidden in these files, types included. */
export function neverImport(title: string, { names, ...where }: Where & { names: string }): Rule {
  return importRule(title, where, names, (found) => reaches(found, names));
}

/**
 * Requires that each relative import names its file with its extension, because rules and cycles identify
 * files by it.
 */
export function fullNames(title: string, where: Where): Rule {
  return importRule(title, where, '', ({ target }) => target !== undefined && !/\.\w+$/.test(target));
}

/** Requires that no file which belongs to one side, or imports from it, imports from another side. */
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

/** Requires that no member expression ends in these names; reports each violation as `file:line`. */
export function noMember(title: string, { member, ...where }: Where & { member: string }): Rule {
  return rule(title, where, '', (source) =>
    linesOfMember(source, ...member.split('.')).map((line) => `${source.file}:${line}`),
  );
}

/**
 * Requires that no string contains this word, whether imported, resolved or part of a path; comments may
 * contain it.
 */
export function noMention(title: string, { word, ...where }: Where & { word: string }): Rule {
  const pattern = new RegExp(`\\b${word}\\b`);
  return rule(title, where, '', (source) =>
    stringsOf(source)
      .filter((text) => pattern.test(text))
      .map((text) => `${source.file} -> ${text}`),
  );
}

/** Requires that no file is longer than this. */
export function atMost(title: string, { lines: most, ...where }: Where & { lines: number }): Rule {
  return rule(title, where, '', ({ file, text }) => {
    const lines = text.replace(/\n$/, '').split('\n').length;
    return lines > most ? [`${file}: ${lines} lines`] : [];
  });
}

/** Requires that no file is longer than this; a file that is one class may have `oneClass` lines. */
export function atMostUnlessOneClass(
  title: string,
  { lines: most, oneClass, ...where }: Where & { lines: number; oneClass: number },
): Rule {
  return rule(title, where, '', ({ file, text }) => {
    const lines = text.replace(/\n$/, '').split('\n').length;
    const classes = text.match(/^(export )?class /gm)?.length ?? 0;
    return lines > (classes === 1 ? oneClass : most) ? [`${file}: ${lines} lines`] : [];
  });
}

/** Requires that no code line matches the pattern; reports each violation as `file:line`. */
export function noCode(title: string, { pattern, ...where }: Where & { pattern: RegExp }): Rule {
  return rule(title, where, '', ({ file, text }) =>
    text.split('\n').flatMap((line, index) => (pattern.test(line) ? [`${file}:${index + 1}`] : [])),
  );
}

/**
 * Requires that files import only from their own floor and the floors below. `floors` lists folders of one parent from
 * top to bottom, with every file on one of them; `up` lists the permitted arrows up.
 */
export function floors(
  title: string,
  { floors: names, up, ...where }: Where & { floors: string; up: readonly string[] },
): Rule {
  const order = words(names);
  const floorOf = (path: string) =>
    order.findIndex((floor) => path === `${where.in}${floor}` || path.startsWith(`${where.in}${floor}/`));
  return rule(title, where, '', (source) => {
    if (floorOf(source.file) < 0) return [`${source.file} is on no floor`];
    return importsOf(source)
      .filter(({ target }) => target !== undefined)
      .flatMap((found) => {
        const [from, to] = [floorOf(found.file), floorOf(found.target ?? '')];
        const arrowUp = `${order[from]} -> ${order[to]}`;
        return to >= 0 && to < from && !up.includes(arrowUp) ? [arrow(found)] : [];
      });
  });
}

/** Requires that no import cycle goes through these files; reports each cycle as `a -> b -> a`. */
export function noCircles(title: string, where: Where): Rule {
  return {
    title,
    paths: pathsOf(where),
    offenders: (sources) =>
      circlesOf(sources.filter(holdsFor(where))).map((circle) => [...circle, circle[0]].join(' -> ')),
  };
}

/** Whether a path matches one of these names. */
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
