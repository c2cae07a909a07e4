/**
 * What a caller gives is checked before anything is sent, by the rules of the contract: an input that is
 * refused when the lease is held is refused when it is free, too. `inputs.test.ts` compares both.
 */
import {
  messageOf,
  textProblem,
  jsonProblem,
  isDatacenterName,
  LIMITS,
} from '@leasehold/keys-core';
import { LeaseholdCallError } from '../transport/call-errors.ts';

/** What is wrong with a value, and where it is. */
export interface Problem {
  readonly field: string;
  /** Says what is allowed: `must be …`. */
  readonly problem: string;
}

/** Undefined if nothing is wrong with the value of the field. */
export type Check = (value: unknown, field: string) => Problem | undefined;

/** @throws {LeaseholdCallError} `request.invalid`, with the field and what is allowed. */
export function assertInput(check: Check, value: unknown, field: string): void {
  const found = problemWith(check, value, field);
  if (found === undefined) return;
  const message = `${found.field} ${found.problem}`;
  throw new LeaseholdCallError('request.invalid', { message, details: { field: found.field } });
}

function problemWith(check: Check, value: unknown, field: string): Problem | undefined {
  try {
    return check(value, field);
  } catch (error) {
    // A getter, or a proxy, that throws.
    return { field, problem: `cannot be read: ${messageOf(error)}` };
  }
}

/** A check of a value alone; the text says what is allowed. */
export function rule(problemOf: (value: unknown) => string | undefined): Check {
  return (value, field) => {
    const problem = problemOf(value);
    return problem === undefined ? undefined : { field, problem };
  };
}

export function optional(check: Check): Check {
  return (value, field) => (value === undefined ? undefined : check(value, field));
}

export function text(bounds: Parameters<typeof textProblem>[1]): Check {
  return rule((value) => textProblem(value as string, bounds));
}

export function matching(isAllowed: (text: string) => boolean, allowed: string): Check {
  return rule((value) => (typeof value === 'string' && isAllowed(value) ? undefined : allowed));
}

export function whole(min: number, max: number): Check {
  const allowed = `must be a whole number from ${String(min)} to ${String(max)}`;
  return rule((value) =>
    Number.isInteger(value) && (value as number) >= min && (value as number) <= max
      ? undefined
      : allowed,
  );
}

export function oneOf(...words: readonly unknown[]): Check {
  const allowed = `must be ${words.map((word) => JSON.stringify(word)).join(' or ')}`;
  return rule((value) => (words.includes(value) ? undefined : allowed));
}

export function listOf(check: Check, lengthMax = Infinity): Check {
  return (value, field) => {
    if (!Array.isArray(value)) return { field, problem: 'must be a list' };
    if (value.length > lengthMax) {
      return { field, problem: `must have at most ${String(lengthMax)} elements` };
    }
    for (const [index, item] of Array.from(value, (one: unknown) => one).entries()) {
      const found = check(item, `${field}[${String(index)}]`);
      if (found !== undefined) return found;
    }
    return undefined;
  };
}

/** An object, of which these fields are checked. `field` is `''` where the fields have no name before theirs. */
export function fields(shape: Readonly<Record<string, Check>>): Check {
  return (value, field) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      return { field: field === '' ? 'options' : field, problem: 'must be an object' };
    }
    for (const [name, check] of Object.entries(shape)) {
      const inner = (value as Record<string, unknown>)[name];
      const found = check(inner, field === '' ? name : `${field}.${name}`);
      if (found !== undefined) return found;
    }
    return undefined;
  };
}

export const callback: Check = rule((value) =>
  typeof value === 'function' ? undefined : 'must be a function',
);

export const flag: Check = oneOf(true, false);

export const abortSignal: Check = rule((value) => {
  const given = value as Partial<AbortSignal> | null | undefined;
  const isSignal =
    typeof given?.aborted === 'boolean' && typeof given.addEventListener === 'function';
  return isSignal ? undefined : 'must be an AbortSignal';
});

export const datacenter: Check = matching(isDatacenterName, 'must be 1 to 32 of a-z, 0-9 and "-"');

export const comment: Check = text({ bytesMax: LIMITS.commentBytesMax });
export const holder: Check = text({ bytesMin: 1, bytesMax: LIMITS.holderBytesMax });
export const reason: Check = text({ bytesMin: 1, bytesMax: LIMITS.reasonBytesMax });

/** What can be sent at all: no BigInt, no circle. */
export const plainInput: Check = rule((value) => {
  try {
    JSON.stringify(value);
    return undefined;
  } catch (error) {
    return `must be JSON: ${firstLine(error)}`;
  }
});

function firstLine(error: unknown): string {
  return messageOf(error).split('\n', 1)[0] ?? '';
}

/** Metadata as it is sent. @throws {LeaseholdCallError} `request.invalid`. */
export function plainMetadata(metadata: unknown): unknown {
  if (metadata === undefined) return undefined;
  let json: unknown;
  const check = rule((value) => {
    try {
      const written = JSON.stringify(value) as string | undefined;
      if (written === undefined) return 'must be JSON';
      json = JSON.parse(written);
    } catch (error) {
      return `must be JSON: ${firstLine(error)}`;
    }
    return jsonProblem(json, {
      bytesMax: LIMITS.metadataBytesMax,
      depthMax: LIMITS.metadataDepthMax,
    });
  });
  assertInput(check, metadata, 'metadata');
  return json;
}
