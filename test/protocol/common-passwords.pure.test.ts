/** The passwords that people choose most often are refused, also with digits or exclamation marks at the end. */
import { describe, expect, it } from 'vitest';
import { password } from '../../protocol/user.ts';

const isAccepted = (text: string) => password.safeParse(text).success;

describe('a common password', () => {
  it.each(['password123', '1234567890', 'qwertyuiop', 'basketball'])(
    'is refused as it is: %s [C-14.7]',
    (text) => {
      expect(isAccepted(text)).toBe(false);
    },
  );

  it.each([
    'iloveyou123',
    'iloveyou!!',
    'iloveyou2024!',
    'iloveyou!1!2!3',
    'qwerty7777',
    'monkey12345',
    'dragon!!!!',
    'sunshine01',
    'letmein!!!',
    'football!9',
    'password!!',
    'basketball1',
    'abc1234567!',
    `iloveyou${'1'.repeat(192)}`,
  ])('is refused with an ending of digits and exclamation marks: %s [C-15.6]', (text) => {
    expect(isAccepted(text)).toBe(false);
  });

  it.each(['ILoveYou123', 'ILOVEYOU!!!', 'iloveyou１２３', 'ｉｌｏｖｅｙｏｕ123', 'iloveyou123！'])(
    'is refused in every spelling that is the same text: %s [C-15.6]',
    (text) => {
      expect(isAccepted(text)).toBe(false);
    },
  );
});

describe('an uncommon password', () => {
  it.each([
    'correct horse battery',
    'nine green ladders',
    'nine green ladders 1!',
    'iloveyou and you',
    'iloveyou123x',
    '123iloveyou-so',
    '!!!iloveyou-so',
    'iloveyou-123',
    'žluťoučký kůň 12',
    'Gq7#rT2zLw',
  ])('is accepted: %s [C-15.6]', (text) => {
    expect(isAccepted(text)).toBe(true);
  });

  it('is accepted with 200 digits less one at its end, in little time [C-15.6]', () => {
    const startedMs = performance.now();
    expect(isAccepted(`x${'9'.repeat(199)}`)).toBe(true);
    expect(performance.now() - startedMs).toBeLessThan(100);
  });
});

describe('the reason of a refusal', () => {
  it('says that the password is common, also with its ending [C-15.6]', () => {
    const { error } = password.safeParse('iloveyou123');
    expect(error?.issues.map(({ message }) => message)).toEqual([
      expect.stringContaining('one of the most common passwords'),
    ]);
  });
});
