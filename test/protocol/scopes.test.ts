/** Scopes: a connect scope expands only when it is the only scope. */
import { describe, expect, it } from 'vitest';
import {
  API_KEY_SCOPES,
  type ApiKeyScope,
  effectiveScopes,
  hasVhost,
  mayConnect,
  VCP_WRITE_SCOPES,
} from '../../protocol/scopes.ts';

it('the closed list of scopes is the published one [spec: Scopes]', () => {
  expect([...API_KEY_SCOPES].sort()).toEqual(
    [
      'plants:read',
      'plants:write',
      'telemetry:read',
      'telemetry:write',
      'commands:read',
      'commands:execute',
      'config:read',
      'config:write',
      'trading:read',
      'trading:write',
      'trading:connect',
      'vcp:connect',
      'vcp:read',
      'vcp:write:setpoint',
      'vcp:write:device-command',
      'vcp:write:schedule',
      'vcp:write:mode',
      'vcp:write:config',
    ].sort(),
  );
});

describe('effectiveScopes', () => {
  it.each(['vcp:connect', 'trading:connect'] as const)(
    'expands %s to every vcp:write scope when it is the only scope, given once or twice [C-5.3]',
    (scope) => {
      for (const scopes of [[scope], [scope, scope]])
        expect(effectiveScopes(scopes)).toEqual(new Set([scope, ...VCP_WRITE_SCOPES]));
    },
  );

  it.each([
    [['vcp:connect', 'vcp:read']],
    [['vcp:connect', 'trading:connect']],
    [['vcp:connect', 'vcp:write:mode']],
    [['trading:connect', 'plants:read']],
    [['vcp:read']],
    [['vcp:write:mode']],
    [[]],
  ] as [ApiKeyScope[]][])('keeps %j as given [C-5.3]', (scopes) => {
    expect(effectiveScopes(scopes)).toEqual(new Set(scopes));
  });

  it('does not expand a repeated connect scope next to another scope [C-5.3]', () => {
    const scopes: ApiKeyScope[] = ['vcp:connect', 'vcp:read', 'vcp:connect'];
    expect(effectiveScopes(scopes)).toEqual(new Set(['vcp:connect', 'vcp:read']));
  });
});

it('only a key with vcp:connect or trading:connect may connect [spec: Scopes]', () => {
  const connecting = API_KEY_SCOPES.filter((scope) => mayConnect(new Set([scope])));
  expect(connecting).toEqual(['trading:connect', 'vcp:connect']);
  expect(mayConnect(new Set<ApiKeyScope>())).toBe(false);
});

it('vcp:connect and the vcp:write scopes give a key its own vhost; vcp:read and trading:connect do not [C-5.3]', () => {
  const withVhost = API_KEY_SCOPES.filter((scope) => hasVhost([scope]));
  expect(withVhost).toEqual(['vcp:connect', ...VCP_WRITE_SCOPES]);
  expect(hasVhost(['trading:connect', 'vcp:read'])).toBe(false);
  expect(hasVhost(['vcp:read', 'vcp:write:mode'])).toBe(true);
  expect(hasVhost([])).toBe(false);
});
