/** How the command line names a lease, an environment, and the key of a reservation. */
import {
  keyNameOf,
  LIMITS,
  nameProblem,
  namespaceProblem,
  parseResourceText,
  repeatedAt,
  reservationKeyProblem,
  resourceText,
} from '@leasehold/keys-core';
import type { Command } from 'commander';
import { usageFailure } from './failures.ts';
import { withDatacenter, withNamespace, type ActOptions } from './options.ts';
import { printable } from './output/text.ts';

/** What a lease or an environment is called: a namespace, its segments joined by `.`, and a name. */
export interface Scope {
  readonly namespace: string;
  readonly name: string;
}

/** What a SCOPE on the command line is, for the help of every command that takes one. */
const SCOPE_HELP = `
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

/** Scopes for people: `user/1, user/2`. */
export function scopesText(scopes: readonly Scope[]): string {
  return scopes.map(scopeText).join(', ');
}

/**
 * Reads the SCOPEs of a command that takes several leases together.
 * @throws {CliFailure} `cli.usage` for one that cannot be a scope, or is there twice, and for too many.
 */
export function parseScopes(
  [first, ...others]: readonly [string, ...string[]],
  namespace?: string,
): readonly [Scope, ...Scope[]] {
  const scopes: [Scope, ...Scope[]] = [
    parseScope(first, namespace),
    ...others.map((text) => parseScope(text, namespace)),
  ];
  if (scopes.length > LIMITS.leasesTogetherMax) {
    throw usageFailure(`Give at most ${String(LIMITS.leasesTogetherMax)} scopes.`);
  }
  const twice = scopes[repeatedAt(scopes) ?? -1];
  if (twice !== undefined) throw usageFailure(`${scopeText(twice)} is given twice.`);
  return scopes;
}

/** The options of a command that names one lease or environment. */
export interface ScopeOptions extends ActOptions {
  readonly namespace?: string;
}

/** Adds the options of every command that names one lease or environment. */
export function withScope(command: Command): Command {
  return withDatacenter(command)
    .option('-n, --namespace <namespace>', 'its namespace; the whole argument is then its key')
    .addHelpText('after', SCOPE_HELP);
}

/** How a command names what is reserved. */
export interface ReservationKeyOptions {
  readonly namespace: string;
  readonly jsonKey?: string;
}

/** Adds `--namespace` and `--json-key`; the command takes a `[name]`. */
export function withReservationKey(command: Command): Command {
  return withNamespace(command)
    .option('--json-key <list>', 'a list of strings instead of a name: \'["a","b"]\'')
    .addHelpText('after', '\nA key is reserved under the list [namespace, name].');
}

/** The key that the arguments name, as a list. @throws {CliFailure} `cli.usage`. */
export function reservationKeyOf(
  name: string | undefined,
  { namespace, jsonKey }: ReservationKeyOptions,
): string[] {
  if ((name === undefined) === (jsonKey === undefined)) {
    throw usageFailure('Give either a key or a --json-key.');
  }
  if (jsonKey !== undefined && namespace !== '') {
    throw usageFailure('--namespace cannot be used with --json-key.');
  }
  const key = jsonKey === undefined ? [namespace, name ?? ''] : listOf(jsonKey);
  const problem = reservationKeyProblem(key);
  if (problem !== undefined) throw usageFailure(`The key ${problem}.`);
  if (jsonKey === undefined && keyNameOf(key) === undefined) {
    throw usageFailure(`${printable(namespace)}/${printable(name ?? '')} is not a valid key.`);
  }
  return key;
}

/** A reservation key for people: NAMESPACE/NAME if it is the name of a key, else the list as JSON. */
export function reservationKeyText(key: readonly string[]): string {
  const named = keyNameOf(key);
  return named === undefined ? printable(JSON.stringify(key)) : scopeText(named);
}

function listOf(text: string): string[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    parsed = undefined;
  }
  if (Array.isArray(parsed) && parsed.every((part) => typeof part === 'string')) return parsed;
  throw usageFailure('--json-key must be a list of strings, such as \'["a","b"]\'.');
}
