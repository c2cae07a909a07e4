/** The key of a reservation, on the command line. */
import { keyNameOf, reservationKeyProblem } from '@leasehold/keys-core';
import type { Command } from 'commander';
import { usageFailure } from '../failures/failure.ts';
import { withNamespace } from '../options.ts';
import { printable } from '../output/printable.ts';
import { scopeText } from './scope.ts';

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
