/** API-key scopes and what they allow (spec: Scopes; [C-5.3]). */
export const VCP_WRITE_SCOPES = [
  'vcp:write:setpoint',
  'vcp:write:device-command',
  'vcp:write:schedule',
  'vcp:write:mode',
  'vcp:write:config',
] as const;

export const API_KEY_SCOPES = [
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
  ...VCP_WRITE_SCOPES,
] as const;
export type ApiKeyScope = (typeof API_KEY_SCOPES)[number];

export const CONNECT_SCOPES: readonly [ApiKeyScope, ApiKeyScope] = ['vcp:connect', 'trading:connect'];

/** The granted scopes. A connect scope without others includes every vcp:write:* (spec: Scopes; [C-5.3]). */
export function effectiveScopes(scopes: readonly ApiKeyScope[]): ReadonlySet<ApiKeyScope> {
  const given = new Set(scopes);
  const [only] = given;
  if (given.size === 1 && only && CONNECT_SCOPES.includes(only)) return new Set([only, ...VCP_WRITE_SCOPES]);
  return given;
}

export function mayConnect(scopes: ReadonlySet<ApiKeyScope>): boolean {
  return CONNECT_SCOPES.some((scope) => scopes.has(scope));
}

/** A key with one of these gets events: through AMQP, or over HTTPS from its journal [C-12.1]. */
export const EVENT_SCOPES: readonly ApiKeyScope[] = [...CONNECT_SCOPES, 'vcp:read'];

export function getsEvents(scopes: ReadonlySet<ApiKeyScope>): boolean {
  return EVENT_SCOPES.some((scope) => scopes.has(scope));
}

/** Whether the scope only opens the AMQP listener. */
export function isBrokerScope(scope: ApiKeyScope): boolean {
  return CONNECT_SCOPES.includes(scope) || scope.startsWith('vcp:write:');
}

/** Whether a key with these scopes has a vhost with a name, and not the legacy vhost `/` [C-5.3]. */
export function hasVhost(scopes: readonly ApiKeyScope[]): boolean {
  return scopes.some((scope) => scope === 'vcp:connect' || scope.startsWith('vcp:write:'));
}
