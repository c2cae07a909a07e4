import { describe, expect, test } from 'vitest';
import type { Leasehold } from '../index.ts';
import { setUpLeases } from '../testing/lease-setup.ts';

/** Never called: the compiler reads it. */
export function refusedByTheCompiler(leasehold: Leasehold, segment: string): void {
  leasehold.defineLease(['user', 'update']);
  leasehold.defineLease([]);
  leasehold.defineLease(['user', segment], { ttlMs: 1_000 });
  leasehold.defineLease(['user', `of-${segment}`]);
  // @ts-expect-error -- an empty segment
  leasehold.defineLease(['user', '']);
  // @ts-expect-error -- `["a.b"]` is not `["a", "b"]`
  leasehold.defineLease(['a.b']);
  // @ts-expect-error -- wherever it stands
  leasehold.defineLease(['a.b', 'c', 'd']);
  // @ts-expect-error -- a namespace is a list
  leasehold.defineLease('user');
}

test('a definition keeps what was checked, whatever its caller does to the lists afterwards', () => {
  const { define } = setUpLeases();
  const given = { namespace: ['user', 'update'], permits: { perKey: 2 } };

  const definition = define(given);
  given.namespace.push('a.b');
  given.permits.perKey = 3;

  expect(definition.namespace).toEqual(['user', 'update']);
  expect(definition.permits).toEqual({ perKey: 2 });
  expect(Object.isFrozen(definition.namespace) && Object.isFrozen(definition.permits)).toBe(true);
});

describe('a namespace that the compiler did not check', () => {
  test.each([[['a.b']], [['']], [['user', '']], [Array.from({ length: 17 }, () => 'a')]])(
    'C10 %j is refused at run time',
    (namespace) => {
      const { define } = setUpLeases();

      expect(() => define({ namespace } as object)).toThrow(
        expect.objectContaining({ code: 'request.invalid' }),
      );
    },
  );
});
