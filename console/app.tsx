/** The frame of all screens: navigation, organization, account; and the screen that the URL selects. */
import { useSignal } from '@preact/signals';
import { type ComponentType, h } from 'preact';
import { useEffect } from 'preact/hooks';
import { api, callError, read } from './api/client.ts';
import {
  chooseOrganization,
  hasExpired,
  may,
  mayHaveSession,
  membership,
  signedOut,
  user,
} from './api/session.ts';
import { CallButton } from './parts/form.tsx';
import { ClockNotice } from './parts/format.tsx';
import { Failure } from './parts/load.tsx';
import { chooseTheme, THEMES, type Theme, theme } from './parts/theme.ts';
import { go, match, NavLink, url } from './router.tsx';
import { AccountScreen } from './screens/account.tsx';
import { AlertsScreen } from './screens/alerts.tsx';
import { AuditScreen } from './screens/audit.tsx';
import { CommandScreen } from './screens/command.tsx';
import { DeadLettersScreen } from './screens/dead-letters.tsx';
import { DeviceScreen } from './screens/device.tsx';
import { DevicesScreen } from './screens/devices.tsx';
import { EventsScreen } from './screens/events.tsx';
import { KeyScreen } from './screens/key.tsx';
import { KeysScreen } from './screens/keys.tsx';
import { LoginScreen } from './screens/login.tsx';
import { MAILED } from './screens/mailed.tsx';
import { MembersScreen } from './screens/members.tsx';
import { OrganizationScreen } from './screens/organization.tsx';
import { SignatureScreen } from './screens/signature.tsx';
import { SiteScreen } from './screens/site.tsx';
import { SitesScreen } from './screens/sites.tsx';
import { TemplatesScreen } from './screens/templates.tsx';
import { WebhooksScreen } from './screens/webhooks.tsx';
import { T } from './texts.ts';

type Screen = ComponentType<{ params: Record<string, string> }>;

const SCREENS: readonly (readonly [pattern: string, screen: Screen, title: string])[] = [
  ['/', SitesScreen, T.nav.sites],
  ['/sites', SitesScreen, T.nav.sites],
  ['/sites/:plantId', SiteScreen, T.nav.site],
  ['/sites/:plantId/commands/:commandId', CommandScreen, T.nav.command],
  ['/keys', KeysScreen, T.nav.keys],
  ['/keys/:keyId', KeyScreen, T.nav.keys],
  ['/events', EventsScreen, T.nav.events],
  ['/dead-letters', DeadLettersScreen, T.deadLetters.title],
  ['/signature', SignatureScreen, T.signature.title],
  ['/webhooks', WebhooksScreen, T.nav.webhooks],
  ['/devices', DevicesScreen, T.nav.devices],
  ['/devices/:deviceId', DeviceScreen, T.nav.devices],
  ['/device-templates', TemplatesScreen, T.templates.title],
  ['/alerts', AlertsScreen, T.nav.alerts],
  ['/audit', AuditScreen, T.nav.audit],
  ['/members', MembersScreen, T.nav.members],
  ['/organization', OrganizationScreen, T.nav.settings],
  ['/account', AccountScreen, T.nav.account],
];

export function App() {
  const error = useSignal<ReturnType<typeof callError> | undefined>(undefined);
  const ask = async () => {
    error.value = undefined;
    if (!mayHaveSession()) {
      user.value = null;
      return;
    }
    try {
      const answer = await api.GET('/api/v1/auth/me');
      if (answer.response.status === 401) user.value = null;
      else user.value = (await read(Promise.resolve(answer))).user;
    } catch (failure) {
      error.value = callError(failure);
    }
  };
  useEffect(() => {
    void ask();
  }, []);
  const mailed = MAILED[url.value.pathname];
  if (error.value)
    return (
      <main class="narrow">
        <Failure error={error.value} retry={ask} />
      </main>
    );
  if (user.value === undefined) return <p class="loading">{T.common.loading}</p>;
  if (mailed) return h(mailed, {});
  if (user.value === null) return <LoginScreen hasExpired={hasExpired.value} />;
  return <Frame />;
}

function Frame() {
  const { pathname } = url.value;
  useEffect(() => {
    if (pathname === '/') go('/sites', true);
  }, [pathname]);
  const found = SCREENS.map(([pattern, screen, title]) => ({
    screen,
    title,
    params: match(pattern, pathname),
  })).find(({ params }) => params !== undefined);
  const own = membership.value;
  useEffect(() => {
    document.title = `${found?.title ?? T.errors.notFound} · Sitewire`;
  }, [found?.title]);
  return (
    <>
      <a class="skip" href="#main">
        {T.nav.skip}
      </a>
      <Navigation />
      {/* Another organization has other data: all screens begin again. */}
      <main id="main" tabIndex={-1} key={own?.organizationId}>
        <ClockNotice />
        {!own ? (
          <NoOrganization />
        ) : found?.params ? (
          <found.screen key={pathname} params={found.params} />
        ) : (
          <NotFound />
        )}
      </main>
    </>
  );
}

function Navigation() {
  const memberships = user.value?.memberships ?? [];
  const logOut = async () => {
    const { response, error } = await api.POST('/api/v1/auth/logout');
    // Without a success the session lives on, and the next person at this computer would have it.
    if (!response.ok && response.status !== 401) await read(Promise.resolve({ response, error }));
    signedOut();
    hasExpired.value = false;
    go('/');
  };
  return (
    <nav aria-label={T.nav.main}>
      <a class="brand" href="/sites">
        Sitewire
      </a>
      <div class="links">
        <NavLink to="/sites">{T.nav.sites}</NavLink>
        <NavLink to="/events">{T.nav.events}</NavLink>
        <NavLink to="/alerts">{T.nav.alerts}</NavLink>
        <NavLink to="/devices">{T.nav.devices}</NavLink>
        {may('ORG_ADMIN') && <NavLink to="/keys">{T.nav.keys}</NavLink>}
        {may('ORG_ADMIN') && <NavLink to="/webhooks">{T.nav.webhooks}</NavLink>}
        {may('ADMIN') && <NavLink to="/audit">{T.nav.audit}</NavLink>}
        <NavLink to="/members">{T.nav.members}</NavLink>
        <NavLink to="/organization">{T.nav.settings}</NavLink>
      </div>
      <div class="who">
        {memberships.length > 1 ? (
          <select
            aria-label={T.nav.organization}
            value={membership.value?.organizationId ?? ''}
            onChange={(event) => {
              chooseOrganization(event.currentTarget.value);
              go('/sites');
            }}
          >
            {memberships.map(({ organizationId, slug }) => (
              <option key={organizationId} value={organizationId}>
                {slug}
              </option>
            ))}
          </select>
        ) : (
          <span>{membership.value?.slug}</span>
        )}
        <select
          aria-label={T.nav.theme}
          value={theme.value}
          onChange={(event) => chooseTheme(event.currentTarget.value as Theme)}
        >
          {THEMES.map((one) => (
            <option key={one} value={one}>
              {T.themes[one]}
            </option>
          ))}
        </select>
        <NavLink to="/account">{user.value?.name ?? T.nav.account}</NavLink>
        <CallButton call={logOut}>{T.nav.logOut}</CallButton>
      </div>
    </nav>
  );
}

function NoOrganization() {
  return (
    <section class="narrow">
      <h1>{T.firstRun.noOrganization}</h1>
      <p>{T.firstRun.noOrganizationHint}</p>
    </section>
  );
}

function NotFound() {
  return (
    <section class="narrow">
      <h1>{T.errors.notFound}</h1>
      <p>{T.errors.notFoundHint}</p>
      <a href="/sites">{T.errors.toSites}</a>
    </section>
  );
}
