/** Every error code of the specification that is not reserved has a route that declares it, and a suite that asserts it. */
import { describe, expect, it } from 'vitest';
import { assertedCodes, ELSEWHERE, errorTable } from '#support/error-table.ts';
import { type ApiErrorCode, ERROR_STATUS } from '../protocol/errors.ts';
import { ERROR_TEXTS } from '../tools/reference/openapi/errors.ts';
import examples from '../tools/reference/openapi/examples.json' with { type: 'json' };
import { NOT_SHOWN } from '../tools/reference/rest-calls/errors.ts';

const CODES = Object.keys(ERROR_STATUS) as ApiErrorCode[];
const RESERVED = CODES.filter((code) => ERROR_TEXTS[code] === null);
const ANSWERED = CODES.filter((code) => ERROR_TEXTS[code] !== null);

const table = await errorTable();

describe('each error code', () => {
  it('is answered or reserved: 61 are answered and 8 reserved (spec: Errors)', () => {
    expect([CODES.length, ANSWERED.length, RESERVED.length]).toEqual([69, 61, 8]);
  });

  it('is declared by a route if it is answered, or its place is listed with the reason [C-10]', () => {
    const absent = ANSWERED.filter((code) => table[code].routes.length === 0 && !ELSEWHERE[code]);
    expect(absent).toEqual([]);
  });

  it('is declared by no route if its place is listed', () => {
    const listed = CODES.filter((code) => ELSEWHERE[code]);
    expect(listed.filter((code) => table[code].routes.length > 0)).toEqual([]);
  });

  it('is asserted by its name if it is answered in a suite of the Worker, the objects or the whole system', () => {
    expect(ANSWERED.filter((code) => table[code].suites.length === 0)).toEqual([]);
  });

  it('has a recorded example in the reference if it is answered, or the reason why it has none', () => {
    const shown = Object.keys(examples.errors);
    expect([...shown, ...Object.keys(NOT_SHOWN)].sort()).toEqual([...ANSWERED].sort());
  });

  it('is declared by no route if it is reserved and asserted by no suite [C-10]', () => {
    const used = RESERVED.filter((code) => table[code].routes.length + table[code].suites.length > 0);
    expect(used).toEqual([]);
  });
});

describe('the codes that a suite asserts', () => {
  it('are those of expectError, expectSameError, a matcher, and the cases of a test that ends with expectError', () => {
    const source = `
      await expectError(await call('/x', { kind: 'NAME' }), 404, 'NOT_FOUND');
      const { message } = await expectError(
        await post('/y'),
        response.status,
        'CONFLICT',
      );
      await expectSameError([one, other], 401, 'UNAUTHORIZED');
      expect(await response.json()).toEqual({ statusCode: 200, code: 'CSP_VIOLATION_LOGGED' });
      await expect(work()).rejects.toMatchObject({
        code: 'SERVICE_UNAVAILABLE',
      });
      it.for([
        ['a name', { kind: ['FLAT'] }, 'VALIDATION_ERROR'],
        ['an id', {}, 'INVALID_UUID'],
      ] as const)('%s gets 400', async ([, body, code]) => {
        await expectError(await post(body), 400, code);
      });`;
    expect([...assertedCodes(source)]).toEqual([
      'NOT_FOUND',
      'CONFLICT',
      'UNAUTHORIZED',
      'CSP_VIOLATION_LOGGED',
      'SERVICE_UNAVAILABLE',
      ...['FLAT', 'VALIDATION_ERROR', 'INVALID_UUID'],
    ]);
  });

  it('are not those of a list, a title or an unrelated call', () => {
    const source = `
      const CODES = ['NOT_FOUND', 'CONFLICT'];
      const FAILED = { statusCode: 500, code: 'INTERNAL_SERVER_ERROR' };
      it.for(['SITE_NOT_FOUND', ['MEMBER_NOT_FOUND']])('gets 404', (code) => send(code));
      it('gets 413 PAYLOAD_TOO_LARGE', async () => {
        send(400, 'BAD_REQUEST');
        await expectError(await call(), 400, code);
      });`;
    expect([...assertedCodes(source)]).toEqual([]);
  });
});
