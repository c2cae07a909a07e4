import { expect, test } from 'vitest';
import type { z } from 'zod';
import { appRouter } from '../app-router.ts';
import { isForwardable, isRepeatable } from './forwardable.ts';

interface Declared {
  readonly _def: { readonly type: string; readonly inputs: readonly z.ZodType[] };
}

const DECLARED = Object.entries(appRouter._def.procedures as unknown as Record<string, Declared>);

/** Whether an input may say where it is to be carried out, by the one field that is not refused. */
function takesDatacenter({ _def: { inputs } }: Declared): boolean {
  return inputs.some((schema) => {
    const parsed = schema.safeParse({ datacenter: 'dc2' });
    const issues = parsed.success ? [] : parsed.error.issues;
    return !issues.some(
      (issue) => issue.code === 'unrecognized_keys' && issue.keys.includes('datacenter'),
    );
  });
}

/** Where a key is to live, and where a drone is, is no question of where the call is carried out. */
const CARRIED_OUT_HERE = ['reservations.reserve', 'drones.session'];
/** Each of its items names its own. */
const BY_ITEM = 'leases.acquireMany';

test('what takes a datacenter is what one datacenter carries out for another, and nothing else', () => {
  const taking = DECLARED.filter(
    ([path, procedure]) => path === BY_ITEM || takesDatacenter(procedure),
  ).map(([path]) => path);

  expect(DECLARED.map(([path]) => path).filter(isForwardable)).toEqual(
    taking.filter((path) => !CARRIED_OUT_HERE.includes(path)),
  );
});

test.each(DECLARED.filter(([path]) => isForwardable(path)))(
  '%s can be repeated exactly if it is a query',
  (path, procedure) => {
    expect(isRepeatable(path)).toBe(procedure._def.type === 'query');
  },
);
