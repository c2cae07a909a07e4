import {
  nameProblem,
  namespaceProblem,
  parseResourceText,
  resourceText,
} from '@leasehold/keys-core';
import { usageFailure } from '../failures/failure.ts';
import { printable } from '../output/printable.ts';

/** What a lease or an environment is called: a namespace, its segments joined by `.`, and a name. */
export interface Scope {
  readonly namespace: string;
  readonly name: string;
}

/** What a SCOPE on the command line is, for the help of every command that takes one. */
export const SCOPE_HELP = `
A SCOPE is NAMESPACE/KEY, with the segments of the namespace joined by ".": user.update/42. Everything
after the first "/" is the key. Without a "/" the whole SCOPE is a key in the root namespace. In the
namespace %2F stands for a "/", and %25 for a "%". With --namespace the whole SCOPE is the key.`;

/**
 * Reads a SCOPE: see {@link SCOPE_HELP}. With a separate `namespace`, the whole text is the name.
 * @throws {CliFailure} `cli.usage` for a text that cannot be a scope.
 */
export function parseScope(text: string, namespace?: string): Scope {
  const scope = namespace === undefined ? parseResourceText(text) : { namespace, name: text };
  const problems = [
    ['namespace', namespaceProblem(scope.namespace)],
    ['key', nameProblem(scope.name)],
  ] as const;
  for (const [part, problem] of problems) {
    if (problem !== undefined) {
      throw usageFailure(
        `The ${part} of the scope ${printable(text)} ${problem}.`,
        'A scope is NAMESPACE/KEY, such as user.update/42.',
      );
    }
  }
  return scope;
}

/** A scope as {@link parseScope} reads it, for people: control characters are escaped. */
export function scopeText(scope: Scope): string {
  return printable(resourceText(scope));
}
