import { LeaseError } from './errors.ts';
import { LIMITS } from './limits.ts';
import { assertText, textProblem } from './text.ts';

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
function assertNamespace(namespace: string): void {
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

/** The place of the first name that is in the list before, or undefined. */
export function repeatedAt(names: readonly Named[]): number | undefined {
  const seen = new Set<string>();
  for (const [place, { namespace, name }] of names.entries()) {
    const one = `${namespace}\0${name}`;
    if (seen.has(one)) return place;
    seen.add(one);
  }
  return undefined;
}

/** Whether `namespace` is `parent` or a child of it; everything is a child of the root. */
export function isWithinNamespace(namespace: string, parent: string): boolean {
  return parent === '' || namespace === parent || namespace.startsWith(`${parent}.`);
}

/** The topic of hints that a backend is ready, or on its way out. */
export function settledTopic(backendId: string): string {
  return `settled:${backendId}`;
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

/** The topic of hints that a permit was released which those in line for any key of the namespace may get. */
export function poolTopic({ namespace }: Pick<Named, 'namespace'>): string {
  return `pool:${namespace}`;
}

/**
 * The one form in which people read and type resources: `user.update/42`, and `42` in the root. The
 * first `/` ends the namespace. So a `/` inside a namespace is written `%2F`, and a root name with one gets
 * another in front: no two resources have the same text. {@link parseResourceText} reads it.
 */
export function resourceText({ namespace, name }: Named): string {
  if (namespace === '' && !name.includes('/')) return name;
  return `${namespaceText(namespace)}/${name}`;
}

/** A namespace as {@link resourceText} writes it. */
export function namespaceText(namespace: string): string {
  return namespace.replaceAll(/%(?=2F|25)|\//gu, (char) => (char === '/' ? '%2F' : '%25'));
}

/** The resource of a text that {@link resourceText} wrote, or that somebody typed. */
export function parseResourceText(text: string): Named {
  const slash = text.indexOf('/');
  if (slash === -1) return { namespace: '', name: text };
  const namespace = text
    .slice(0, slash)
    .replaceAll(/%(2F|25)/gu, (_, code) => (code === '25' ? '%' : '/'));
  return { namespace, name: text.slice(slash + 1) };
}

/**
 * What a reader cannot see, or what changes what is seen around it: control and format characters, characters
 * that nothing draws (`Default_Ignorable_Code_Point`), spaces that are not the ordinary one, unassigned and
 * private ones; and a backslash that would read as the beginning of an escape. A joiner or a variation selector
 * inside an emoji is part of what is drawn.
 */
const UNSEEN =
  /(?<=\p{Extended_Pictographic}[\p{Emoji_Modifier}\uFE0F]?)\u200D(?=\p{Extended_Pictographic})|(?<=\p{Extended_Pictographic})\uFE0F|([\p{C}\p{Zl}\p{Zp}\p{DI}]|(?! )\p{Zs}|\\(?=u\{))/gu;

/**
 * A text in which everything can be seen: what could not is written as `\u{202e}`. Different texts stay
 * different. Names are shown in this form, so that none can pass for another.
 */
export function printableText(text: string): string {
  return text.replaceAll(UNSEEN, (char, unseen: string | undefined) =>
    unseen === undefined ? char : `\\u{${(unseen.codePointAt(0) ?? 0).toString(16)}}`,
  );
}
