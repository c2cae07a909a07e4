import { LeaseError } from '../errors/index.ts';
import { LIMITS } from '../limits.ts';
import { assertText, textProblem } from '../text.ts';

/** The three kinds of resource that can be held. */
export const FACES = ['key', 'lease', 'environment'] as const;
export type Face = (typeof FACES)[number];

/** A name in a namespace: the segments joined by `.`; the root is the empty string. */
export interface Named {
  readonly namespace: string;
  readonly name: string;
}

/** What can be held. */
export interface Resource extends Named {
  readonly face: Face;
}

/** Leasehold's own namespace: no token may ask for it, nor for a child of it. */
export const RESERVED_NAMESPACE = 'leasehold';

/** One string per resource, for maps. Unambiguous, because a namespace cannot hold a NUL. */
export function resourceKey(resource: Resource): string {
  return `${resource.face}\0${resource.namespace}\0${resource.name}`;
}

/** Why a name may not be used, or undefined. Path-like names are fine: no name is ever used as a path. */
export function nameProblem(name: string): string | undefined {
  return textProblem(name, { bytesMin: 1, bytesMax: LIMITS.nameBytesMax });
}

/** Why a joined namespace may not be used, or undefined. */
export function namespaceProblem(namespace: string): string | undefined {
  if (namespace === '') return undefined;
  const segments = namespace.split('.');
  if (segments.some((segment) => segment === '')) return 'must not have an empty segment';
  if (segments.length > LIMITS.namespaceSegmentsMax) {
    return `must have at most ${String(LIMITS.namespaceSegmentsMax)} segments`;
  }
  return textProblem(namespace, { bytesMax: LIMITS.namespaceBytesMax });
}

/**
 * Joins the segments of a namespace.
 * @throws {LeaseError} `request.invalid` for a segment that is empty or contains `.`, so that
 * `["a.b"]` is refused rather than confused with `["a","b"]`.
 */
export function joinNamespace(segments: readonly string[]): string {
  const isList = Array.isArray(segments) && segments.every((one) => typeof one === 'string');
  if (!isList) {
    throw new LeaseError('request.invalid', 'namespace must be a list of strings', {
      details: { field: 'namespace' },
    });
  }
  for (const segment of segments) {
    if (segment === '' || segment.includes('.')) {
      throw new LeaseError(
        'request.invalid',
        'namespace segments must not be empty or contain "."',
        {
          details: { field: 'namespace' },
        },
      );
    }
  }
  const namespace = segments.join('.');
  assertNamespace(namespace);
  return namespace;
}

/** @throws {LeaseError} `request.invalid`. */
export function assertNamespace(namespace: string): void {
  const problem = namespaceProblem(namespace);
  if (problem !== undefined) {
    throw new LeaseError('request.invalid', `namespace ${problem}`, {
      details: { field: 'namespace' },
    });
  }
}

/** @throws {LeaseError} `request.invalid`. */
export function assertResource(resource: Resource): void {
  assertNamespace(resource.namespace);
  assertText('name', resource.name, { bytesMin: 1, bytesMax: LIMITS.nameBytesMax });
}

/** Whether `namespace` is `parent` or a child of it; everything is a child of the root. */
export function isWithinNamespace(namespace: string, parent: string): boolean {
  return parent === '' || namespace === parent || namespace.startsWith(`${parent}.`);
}

/** The topic of hints that a key was freed. */
export function keyTopic(key: Named): string {
  return `key:${key.namespace}/${key.name}`;
}

/** The topic of hints about a lease: it may have become free. */
export function leaseTopic(lease: Named): string {
  return `lease:${lease.namespace}/${lease.name}`;
}

/** The topic of hints that a lease was released while this ticket was the first in its line. */
export function turnTopic(ticketId: string): string {
  return `turn:${ticketId}`;
}

/** The topic of hints to all others in that line. */
export function othersTurnTopic(lease: Named): string {
  return `others:${lease.namespace}/${lease.name}`;
}
