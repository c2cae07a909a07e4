import addCompletion from '@bomb.sh/tab/commander';
import { Command } from 'commander';
import packageJson from '../package.json' with { type: 'json' };
import type { Cli } from './cli.ts';
import { addAdmin } from './commands/admin/create.ts';
import { addConsole, addController, addDrone } from './commands/apps.ts';
import { addAudit } from './commands/audit/audit.ts';
import { addBackends } from './commands/backends.ts';
import { addConfig } from './commands/config-print.ts';
import { addConnect } from './commands/connect.ts';
import { addContext } from './commands/context-commands.ts';
import { addDatacenters } from './commands/datacenters.ts';
import { addDoctor } from './commands/doctor.ts';
import { addDrones } from './commands/drones.ts';
import { addEvents, addRefusals } from './commands/events/events.ts';
import { addFind } from './commands/find.ts';
import { addHoldOff } from './commands/hold-off.ts';
import { addKeys } from './commands/keys.ts';
import { addEnvironments, addLeases } from './commands/leases/leases.ts';
import { addMigrate } from './commands/migrate/migrate.ts';
import { addReservations } from './commands/reservations/reservations.ts';
import { addTokens } from './commands/tokens/tokens.ts';
import { addUp } from './commands/up.ts';
import { addWebhook } from './commands/webhook.ts';
import { withListing } from './options.ts';
import { EXIT_CODES_HELP } from './failures/exit-codes.ts';
import { usageFailure } from './failures/failure.ts';

/** First the commands that stand by themselves, then groups of commands, by what they are about. */
const COMMANDS: readonly ((cli: Cli, program: Command) => void)[] = [
  ...[addUp, addConnect, addFind, addDoctor, addController, addConsole, addDrone, addMigrate],
  ...[addKeys, addLeases, addEnvironments, addReservations, addDatacenters, addBackends, addDrones],
  ...[addHoldOff, addAdmin, addTokens, addEvents, addRefusals, addAudit, addWebhook],
  ...[addContext, addConfig],
];

const HELP = `
Commands talk to the context that --context or LEASEHOLD_CONTEXT names; else to LEASEHOLD_URL, with
LEASEHOLD_TOKEN; else to the context that \`leasehold context use\` has chosen; else to what
\`leasehold up\` runs in LEASEHOLD_HOME (.leasehold unless set), as its administrator. That is also the
context "local". LEASEHOLD_URL may name several controllers of one database, separated by commas: one
that does not answer is skipped.

${EXIT_CODES_HELP}`;

/** The commands that print a list. */
function listsIn(command: Command): Command[] {
  if (command.commands.length > 0) return command.commands.flatMap(listsIn);
  const isPaged = command.options.some(({ long }) => long === '--limit');
  const isOther = ['ls', 'tree'].includes(command.name());
  return (isPaged || isOther) && command.name() !== 'create' ? [command] : [];
}

/** The whole command line. Nothing in it but `completion` prints or exits by itself. */
export function createProgram(cli: Cli): Command {
  const program = new Command('leasehold')
    .description('Who holds a key right now, and until when')
    .version(packageJson.version)
    .option('--json', 'print answers as JSON, errors too')
    .option('--context <name>', 'the context to use, whatever is set')
    .showSuggestionAfterError()
    .addHelpText('after', HELP);
  // Subcommands inherit these settings, if they are made before the subcommands.
  program.exitOverride().configureOutput({
    writeOut: cli.context.stdout,
    // Errors are printed once, by the code that runs the program.
    writeErr: () => undefined,
  });
  program.hook('preAction', () => {
    const { context: named } = program.opts<{ context?: string }>();
    if (named === '') throw usageFailure('--context must name a context.');
    if (named !== undefined) {
      cli.environment = { ...cli.context.environment, LEASEHOLD_CONTEXT: named };
    }
  });
  for (const add of COMMANDS) add(cli, program);
  for (const list of program.commands.flatMap(listsIn)) {
    withListing(list, (output, isWatched) => {
      cli.listing = { format: output === 'json' ? 'table' : output, isWatched };
    });
  }
  // It reads the commands above, and prints by itself.
  addCompletion(program, { completionCommandName: 'completion' });
  return program;
}
