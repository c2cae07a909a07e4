import { expect, test } from 'vitest';
import { whyNot } from './session.tsx';

const limited = { role: 'operator', namespaces: ['shop'] } as const;

test('somebody who is limited to namespaces may not do what concerns all of them', () => {
  expect(whyNot(limited, 'operator')).toBeUndefined();
  expect(whyNot(limited, 'operator', { isOfAll: true })).toMatch(/limited/);
  expect(whyNot({ ...limited, namespaces: null }, 'operator', { isOfAll: true })).toBeUndefined();
});

test('what administrators do concerns all namespaces', () => {
  expect(whyNot({ ...limited, role: 'admin' }, 'admin')).toMatch(/limited/);
  expect(whyNot({ role: 'admin', namespaces: null }, 'admin')).toBeUndefined();
});

test('a role that does not suffice is the reason before any limit', () => {
  expect(whyNot({ ...limited, role: 'viewer' }, 'operator', { isOfAll: true })).toBe(
    'This needs the role operator; yours is viewer.',
  );
});
