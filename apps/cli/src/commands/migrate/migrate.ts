import type { PlannedMigration } from '@leasehold/keys-core/postgres';
import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { requireDatabase } from '../../home.ts';
import { pathOfPart } from '../../sibling-app.ts';

/** `leasehold migrate`: brings the database up to this version. Safe to repeat and to race. */
export function addMigrate(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'migrate', 'Apply the migrations of this version to the database of DATABASE_URL')
    .option('--plan', 'print what would be applied, and change nothing; the SQL too with --json')
    .action(async ({ plan }: { plan?: true }) => {
      const databaseUrl = requireDatabase(
        cli.config(),
        '`leasehold up` migrates its own database.',
      );
      const { migrate, planMigration } = await import('@leasehold/keys-core/postgres');
      const migrations = pathOfPart('migrations');
      if (plan === true) {
        const answer = await planMigration(databaseUrl, migrations);
        cli.show(answer, () => planText(answer));
        return;
      }
      const answer = await migrate(databaseUrl, migrations);
      cli.show(answer, () =>
        answer.applied.length === 0
          ? UP_TO_DATE
          : `Applied:${answer.applied.map((name) => `\n  ${name}`).join('')}`,
      );
    });
}

const UP_TO_DATE = 'The database is up to date.';

interface Plan {
  readonly schema: string;
  readonly planned: readonly PlannedMigration[];
}

function planText({ schema, planned }: Plan): string {
  if (planned.length === 0) return UP_TO_DATE;
  const count = planned.length === 1 ? '1 migration' : `${String(planned.length)} migrations`;
  return [
    `${count} to apply to the schema "${schema}", each in a transaction of its own:`,
    ...planned.map(migrationText),
    'Nothing was changed.',
  ].join('\n\n');
}

function migrationText({ name, olderMayStart, notes }: PlannedMigration): string {
  const older = olderMayStart
    ? 'Controllers of older versions may be started afterwards.'
    : 'Controllers of older versions that run continue, and cannot be started afterwards.';
  const lines = [...(notes === '' ? [] : notes.split('\n')), older];
  return [name, ...lines.map((line) => `  ${line}`.trimEnd())].join('\n');
}
