import { emailSchema } from '@leasehold/api/contract';
import type { PlannedMigration } from '@leasehold/keys-core/postgres';
import { InvalidArgumentError, type Command } from 'commander';
import { pathOfPart } from '../apps.ts';
import type { Cli } from '../cli.ts';
import type { MadeAdmin } from '../database.ts';
import { requireDatabase } from '../home.ts';

const NAME_LENGTH_MAX = 255;

interface AdminCreateOptions {
  readonly email: string;
  readonly name?: string;
  readonly passwordStdin?: true;
}

const HELP = `
It needs the database (DATABASE_URL, or that of the \`leasehold up\` of this home) but no controller, so it
also works when nobody can sign in any more. An existing person becomes an administrator, is enabled and
unlocked, gets the new password, and is signed out everywhere.`;

/** `leasehold admin create`: somebody who can sign in to the console and administer. */
export function addAdmin(cli: Cli, program: Command): void {
  const parent = program.command('admin').description('Make administrators of the console');
  cli
    .leaf(parent, 'create', 'Make an administrator of the console, or restore one')
    .requiredOption('--email <email>', 'the e-mail address for sign-in', emailOf)
    .option('--name <name>', 'the name of the person', nameOf)
    .option(
      '--password-stdin',
      'read the password from standard input; by default one is generated',
    )
    .addHelpText('after', HELP)
    .action(async ({ email, name, passwordStdin }: AdminCreateOptions) => {
      const config = cli.config();
      const databaseUrl = requireDatabase(
        config,
        `Nothing runs in ${config.home} either; \`leasehold up\` makes an administrator by itself.`,
      );
      const password =
        passwordStdin === true ? (await cli.context.readStdin()).replace(/\r?\n$/u, '') : undefined;
      const { makeAdminOn } = await import('../database.ts');
      const made = await makeAdminOn(databaseUrl, { email, name, password });
      cli.show(made, () => sentences(made));
    });
}

function sentences(shown: MadeAdmin): string {
  const what = shown.isNew ? 'is an administrator now' : 'is an administrator again';
  return shown.password === undefined
    ? `${shown.email} ${what}.`
    : `${shown.password}\n\n${shown.email} ${what}. This is the only time that the password is shown.`;
}

/** Accepts only what the sign-in accepts: with any other address nobody could sign in. */
function emailOf(text: string): string {
  const email = emailSchema.safeParse(text);
  if (email.success) return email.data;
  throw new InvalidArgumentError('It must be an e-mail address, such as you@example.com.');
}

function nameOf(text: string): string {
  if (text.trim() === '' || text.length > NAME_LENGTH_MAX) {
    throw new InvalidArgumentError(`It must have 1 to ${String(NAME_LENGTH_MAX)} characters.`);
  }
  return text;
}

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
