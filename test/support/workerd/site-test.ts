/**
 * Fixtures of a Site's suites: every test begins at START_MS, and only `setClock` and `passTime` move its clock. A scene
 * is created when a test that names it begins.
 */
import { test as base, vi } from 'vitest';
import { newRuledSite } from './alerts.ts';
import { setScene } from './scene.ts';
import { START_MS } from './site-clock.ts';
import { newMove } from './site-move.ts';
import { PLANNED } from './site-plan.ts';

export { describe, expect } from 'vitest';

export const test = base
  .extend('clock', { auto: true }, () => vi.useFakeTimers({ toFake: ['Date'], now: START_MS }))
  .extend('plainSite', ({ clock: _clock }) => setScene({ plant: true }))
  .extend('connectedSite', ({ clock: _clock }) => setScene({ gateway: 'connected' }))
  .extend('listeningSite', ({ clock: _clock }) => setScene({ gateway: 'listening' }))
  .extend('listenedSite', ({ clock: _clock }) => setScene({ plant: true, partner: 'listening' }))
  .extend('plannedSite', ({ clock: _clock }) => setScene(PLANNED))
  .extend('ruledSite', ({ clock: _clock }) => newRuledSite())
  .extend('moving', ({ clock: _clock }) => newMove())
  .extend('telemetrySite', ({ clock: _clock }) => setScene({ plant: true, telemetry: 'modelled' }));

export const it = test;
