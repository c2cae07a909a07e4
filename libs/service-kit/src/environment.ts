import type { z } from 'zod';
import { secretsOfFiles } from './secret-files.ts';

/** The variables of a process. Only each app's `config.ts` reads the real ones. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The values, or all problems with them. */
export type ParsedEnvironment<T> =
  | { readonly outcome: 'valid'; readonly values: T }
  | { readonly outcome: 'invalid'; readonly problems: readonly string[] };

/**
 * Reads an environment by one schema and finds every problem at once, each beginning with the name of
 * its variable. A variable that is set to nothing counts as not set: shells and unit files leave
 * such variables. A secret may be in a file, which the variable with `_FILE` at its end names. Values are never
 * repeated: some are secrets.
 */
export function parseEnvironment<Shape extends z.core.$ZodLooseShape>(
  schema: z.ZodObject<Shape>,
  environment: Environment,
): ParsedEnvironment<z.output<z.ZodObject<Shape>>> {
  const given = Object.fromEntries(
    Object.entries(environment).filter(([, value]) => value !== undefined && value !== ''),
  );
  const secrets = secretsOfFiles(Object.keys(schema.shape), given);
  if (secrets.problems.length > 0) return { outcome: 'invalid', problems: secrets.problems };
  const parsed = schema.safeParse({ ...given, ...secrets.values });
  if (parsed.success) return { outcome: 'valid', values: parsed.data };
  return {
    outcome: 'invalid',
    problems: parsed.error.issues.map(
      (issue) => `${issue.path.map(String).join('.')}: ${issue.message}`,
    ),
  };
}
