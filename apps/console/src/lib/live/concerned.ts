/** Which answers may have changed, given what events happened to: only those are read again. Pure. */
import type { EventChanges } from '@leasehold/keys-core';
import { at } from '~/lib/routes.ts';

/** A query: its key is `[group, procedure, input]`. */
interface Asked {
  readonly queryKey: readonly unknown[];
  /** Its last answer. */
  readonly data?: unknown;
}

/** The groups of procedures whose answers an event of a face may change. */
const GROUPS: Readonly<Record<string, readonly string[]>> = {
  key: ['keys', 'backends', 'drones', 'stats', 'events'],
  lease: ['leases', 'stats', 'events'],
  environment: ['environments', 'stats', 'events'],
};

/** What an answer is about: each part that is not undefined narrows it down. */
interface Subject {
  readonly face?: unknown;
  readonly namespace?: unknown;
  readonly name?: unknown;
}

/** Whether an answer may be another one after these changes, which are all of this datacenter. */
export function isConcerned(asked: Asked, { resources, manyOf }: EventChanges): boolean {
  const [group, procedure, input] = asked.queryKey;
  const given = recordOf(input);
  if (isElsewhere(given['datacenter'])) return false;
  const isOfGroup = (face: string): boolean => GROUPS[face]?.includes(String(group)) === true;
  const subject: Subject = { ...given, ...keyOfBackend(group, procedure, asked.data) };
  const isExact = typeof subject.name === 'string';
  return (
    manyOf.some((face) => isOfGroup(face) && isFace(subject, face)) ||
    resources.some(
      ({ face, namespace, name }) =>
        isOfGroup(face) &&
        isFace(subject, face) &&
        (!isExact || subject.name === name) &&
        isWithin(namespace, subject.namespace, isExact && procedure !== 'list'),
    )
  );
}

function isFace({ face }: Subject, changed: string): boolean {
  return face === undefined || face === changed;
}

/** Events of other datacenters do not arrive here: their answers are read on a timer. */
function isElsewhere(datacenter: unknown): boolean {
  if (typeof datacenter !== 'string' || datacenter === 'all') return false;
  return at(datacenter).datacenter !== undefined;
}

function isWithin(namespace: string, wanted: unknown, isAlone: boolean): boolean {
  if (typeof wanted !== 'string' || namespace === wanted) return true;
  return !isAlone && (wanted === '' || namespace.startsWith(`${wanted}.`));
}

/** A backend is asked for by its id; its answer says which key it belongs to. */
function keyOfBackend(group: unknown, procedure: unknown, data: unknown): Subject {
  if (group !== 'backends' || procedure !== 'get') return {};
  const { namespace, name } = recordOf(recordOf(data)['key']);
  return { namespace, name };
}

function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
