/** Suggestions for mistyped words. */
import { describe, expect, it } from 'vitest';
import { nearest } from '../../protocol/nearest.ts';
import { API_KEY_SCOPES } from '../../protocol/scopes.ts';

describe('the suggestion for a mistyped scope', () => {
  it.each([
    ['vcp:write:device', 'vcp:write:device-command'],
    ['vcp:raed', 'vcp:read'],
    ['vcp:write:modes', 'vcp:write:mode'],
    ['plants_read', 'plants:read'],
    ['telemtry:read', 'telemetry:read'],
  ])('%s gets the suggestion %s', (text, word) => {
    expect(nearest(text, API_KEY_SCOPES)).toBe(word);
  });

  it.each(['', 'admin', 'x', 'read:everything', 'v'.repeat(10_000)])(
    'the word $0, which resembles no scope, gets no suggestion',
    (text) => {
      expect(nearest(text, API_KEY_SCOPES)).toBeUndefined();
    },
  );
});
