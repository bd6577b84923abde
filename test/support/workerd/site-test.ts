/**
 * Fixtures of a Site's suites: every test begins at START_MS, and only `setClock` and `passTime` move its clock. A scene
 * is created when a test that names it begins.
 */
import { test as base, vi } from 'vitest';
import { newRuledSite } from './alerts.ts';
import { START_MS } from './site-clock.ts';
import { newMove } from './site-move.ts';
import { newPlannedSite } from './site-plan.ts';
import { newConnectedSite, newListenedSite, newListeningSite, newSite } from './site-scenes.ts';
import { newTelemetrySite } from './telemetry-site.ts';

export { describe, expect } from 'vitest';

export const test = base
  .extend('clock', { auto: true }, () => vi.useFakeTimers({ toFake: ['Date'], now: START_MS }))
  .extend('plainSite', ({ clock: _clock }) => newSite())
  .extend('connectedSite', ({ clock: _clock }) => newConnectedSite())
  .extend('listeningSite', ({ clock: _clock }) => newListeningSite())
  .extend('listenedSite', ({ clock: _clock }) => newListenedSite())
  .extend('plannedSite', ({ clock: _clock }) => newPlannedSite())
  .extend('ruledSite', ({ clock: _clock }) => newRuledSite())
  .extend('moving', ({ clock: _clock }) => newMove())
  .extend('telemetrySite', ({ clock: _clock }) => newTelemetrySite());

export const it = test;
