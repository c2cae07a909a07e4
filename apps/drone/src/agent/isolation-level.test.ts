import { expect, test } from 'vitest';
import { ISOLATION_LEVELS } from '@leasehold/api/drone-file';
import type { IsolationFacts } from '../warden/link/protocol.ts';
import { requireIsolation } from './isolation-level.ts';

const own: IsolationFacts = {
  user: 'own',
  pidNamespace: true,
  privateProc: true,
  hiddenHome: true,
  noNewPrivs: true,
  detail: 'missing: something',
};

test.each([
  ['everything', own, ['none', 'namespaces', 'own-user']],
  ['no users of their own', { ...own, user: 'shared' } as const, ['none', 'namespaces']],
  ['no PID namespace', { ...own, pidNamespace: false }, ['none']],
  ["the machine's /proc", { ...own, privateProc: false }, ['none']],
  ["the drone's folders", { ...own, hiddenHome: false }, ['none']],
  ['new privileges', { ...own, noNewPrivs: false }, ['none']],
])('a machine with %s meets exactly the expected levels', (_what, facts, met) => {
  const levels = ISOLATION_LEVELS.filter((level) => {
    try {
      requireIsolation(facts, level);
      return true;
    } catch {
      return false;
    }
  });

  expect(levels).toEqual(met);
});
