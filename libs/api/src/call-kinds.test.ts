import { expect, test } from 'vitest';
import { PROCEDURES, type DeclaredProcedure } from './app-router.ts';
import { isForwardable, isRepeatable } from './call-kinds.ts';

const DECLARED = [...PROCEDURES];

/** Whether an input may name the datacenter that carries it out: that field is not refused. */
function takesDatacenter({ inputs }: DeclaredProcedure): boolean {
  return inputs.some((schema) => {
    const parsed = schema.safeParse({ datacenter: 'dc2' });
    const issues = parsed.success ? [] : parsed.error.issues;
    return !issues.some(
      (issue) => issue.code === 'unrecognized_keys' && issue.keys.includes('datacenter'),
    );
  });
}

/** Their `datacenter` is where a key is to live or where a drone is, not where the whole call is carried out. */
const CARRIED_OUT_HERE = [
  // They name the datacenter that is lost.
  'datacenters.giveUp',
  'datacenters.takeBack',
  'reservations.reserve',
  'drones.session',
  // The datacenter is that of the key.
  'gateway.handOver',
  // It asks there page by page.
  'backends.followLogs',
];
/** Each item names its own datacenter, or a controller chooses where else it is carried out. */
const WITHOUT_DATACENTER = ['leases.acquireMany', 'gateway.sign', 'gateway.revoke'];

test('a procedure is forwardable exactly if its input can name the datacenter that carries it out', () => {
  const taking = DECLARED.filter(
    ([path, procedure]) => WITHOUT_DATACENTER.includes(path) || takesDatacenter(procedure),
  ).map(([path]) => path);

  expect(DECLARED.map(([path]) => path).filter(isForwardable)).toEqual(
    taking.filter((path) => !CARRIED_OUT_HERE.includes(path)),
  );
});

test('no procedure that needs an administrator is forwardable: nobody is one in another datacenter', () => {
  const forwardable = DECLARED.filter(([path]) => isForwardable(path));

  expect(forwardable.filter(([, { meta }]) => meta?.role === 'admin')).toEqual([]);
});

test.each(DECLARED.filter(([path]) => isForwardable(path)))(
  '%s is repeatable exactly if it is a query',
  (path, procedure) => {
    expect(isRepeatable(path)).toBe(procedure.type === 'query');
  },
);
