import { fileVariableOf, SECRETS, type Environment } from '@leasehold/service-kit';

/** Not Leasehold's alone: a command may have a database of its own. */
const OF_OTHERS: readonly string[] = ['DATABASE_URL'];
const TOKEN = 'LEASEHOLD_TOKEN';

/**
 * The environment of a command that runs under a lease: that of this process without Leasehold's secrets, so that
 * neither the command nor what it starts and logs has them. `isTokenPassed` leaves the token in.
 */
export function commandEnvironment(
  environment: Environment,
  { isTokenPassed }: { readonly isTokenPassed: boolean },
): Environment {
  const kept = isTokenPassed ? [...OF_OTHERS, TOKEN] : OF_OTHERS;
  const withheld = new Set(
    SECRETS.filter((name) => !kept.includes(name)).flatMap((name) => [name, fileVariableOf(name)]),
  );
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !withheld.has(name)));
}
