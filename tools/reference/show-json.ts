/** JSON as the documentation shows it. */

const WIDTH = 110;

/**
 * JSON with one line for each member of the outermost value; a member is split further if its value is wider than
 * `WIDTH`.
 */
export function show(value: unknown, indent = ''): string {
  const inOneLine = JSON.stringify(value, null, 1).replace(/\n\s*/g, ' ');
  if (indent !== '' && indent.length + inOneLine.length <= WIDTH) return inOneLine;
  if (typeof value !== 'object' || value === null) return inOneLine;
  const deeper = `${indent}  `;
  const members = Array.isArray(value)
    ? value.map((item) => show(item, deeper))
    : Object.entries(value).map(([name, member]) => `${JSON.stringify(name)}: ${show(member, deeper)}`);
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  return `${open}\n${deeper}${members.join(`,\n${deeper}`)}\n${indent}${close}`;
}
