import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { requireDatabase } from '../config/home.ts';
import { pathOfPart } from '../sibling-app.ts';

/** `leasehold migrate`: brings the database up to this version. Safe to repeat and to race. */
export function addMigrate(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'migrate', 'Apply the migrations of this version to the database of DATABASE_URL')
    .action(async () => {
      const databaseUrl = requireDatabase(
        cli.config(),
        '`leasehold up` migrates its own database.',
      );
      const { migrate } = await import('@leasehold/keys-core/postgres');
      const answer = await migrate(databaseUrl, pathOfPart('migrations'));
      cli.show(answer, () =>
        answer.applied.length === 0
          ? 'The database is up to date.'
          : `Applied:${answer.applied.map((name) => `\n  ${name}`).join('')}`,
      );
    });
}
