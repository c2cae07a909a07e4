import { readFileSync } from 'node:fs';

/** The variables that may be read from a file: where containers run, secrets are files. */
export const SECRETS = [
  'DATABASE_URL',
  'LEASEHOLD_TOKEN',
  'LEASEHOLD_FIRST_TOKEN',
  'LEASEHOLD_AUTH_SECRET',
  'LEASEHOLD_CONSOLE_SECRET',
  'LEASEHOLD_OIDC_CLIENT_SECRET',
  'LEASEHOLD_PEER_TOKEN',
  'LEASEHOLD_ETCD_PASSWORD',
  'LEASEHOLD_WEBHOOK_SECRET',
  // That of an incoming webhook of Slack is a secret as a whole.
  'LEASEHOLD_WEBHOOK_URL',
] as const;

/** The variable that names the file of another one. */
export function fileVariableOf(name: string): string {
  return `${name}_FILE`;
}

type Values = Readonly<Record<string, string | undefined>>;

/**
 * The secrets among `names` that files have, and what is wrong with the files. A line break at the end of a file is
 * not part of the secret: editors and `echo` leave one.
 */
export function secretsOfFiles(
  names: readonly string[],
  given: Values,
): { readonly values: Values; readonly problems: readonly string[] } {
  const values: Record<string, string> = {};
  const problems: string[] = [];
  for (const name of SECRETS.filter((secret) => names.includes(secret))) {
    const variable = fileVariableOf(name);
    const file = given[variable];
    if (file === undefined) continue;
    if (given[name] !== undefined) {
      problems.push(`${variable}: must not be set together with ${name}`);
      continue;
    }
    try {
      values[name] = readFileSync(file, 'utf8').replace(/\r?\n$/u, '');
      if (values[name] === '') problems.push(`${variable}: names an empty file`);
    } catch (error) {
      problems.push(
        `${variable}: cannot be read: ${String((error as NodeJS.ErrnoException).code)}`,
      );
    }
  }
  return { values, problems };
}
