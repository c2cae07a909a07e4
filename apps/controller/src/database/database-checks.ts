import { LeaseError } from '@leasehold/keys-core';
import { connectionProblems, type DatabaseSettings } from '@leasehold/keys-core/postgres';

const POSTGRES_VERSION_MIN = 150_000;

/**
 * Checks that the database can keep our promises, and that these connections see our tables.
 * @returns warnings. @throws {LeaseError} `config.invalid` with every problem.
 */
export function checkDatabase(settings: DatabaseSettings, schema: string): string[] {
  const problems = connectionProblems(settings, schema);
  if (settings.versionNumber < POSTGRES_VERSION_MIN) {
    problems.push(`PostgreSQL 15 or later is needed, and this is ${settings.version}`);
  }
  if (settings.synchronousCommit === 'off' || settings.synchronousCommit === 'local') {
    problems.push(
      `synchronous_commit is "${settings.synchronousCommit}": a crash could take back a grant or a renewal that was answered; set it to on`,
    );
  }
  if (problems.length > 0) throw unusable(problems);
  return settings.standbyCount > 0 && settings.synchronousStandbyNames === ''
    ? [
        'a standby exists and synchronous_standby_names is empty: a failover may lose grants and renewals',
      ]
    : [];
}

/** What is thrown for a database that does not keep our promises. */
export function unusable(problems: readonly string[]): LeaseError {
  return new LeaseError('config.invalid', `The database cannot be used: ${problems.join('; ')}.`, {
    details: { problems },
  });
}
