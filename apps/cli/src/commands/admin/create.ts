import { emailSchema } from '@leasehold/api/contract';
import { InvalidArgumentError, type Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { requireDatabase } from '../../home.ts';
import type { MadeAdmin } from './make-admin.ts';

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
      const { makeAdminOn } = await import('./make-admin.ts');
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
