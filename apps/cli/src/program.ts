import { Command } from 'commander';
import packageJson from '../package.json' with { type: 'json' };
import type { Cli } from './cli.ts';
import { addAdminCreate } from './commands/admin/create.ts';
import { addAuditExport } from './commands/audit/export.ts';
import { addAuditLs } from './commands/audit/ls.ts';
import { addBackendsLs } from './commands/backends/ls.ts';
import { addBackendsShow } from './commands/backends/show.ts';
import { addBackendsTerminate } from './commands/backends/terminate.ts';
import { addBackendsWatch } from './commands/backends/watch.ts';
import { addConfigPrint } from './commands/config-print.ts';
import { addConnect } from './commands/connect.ts';
import { addConsole } from './commands/console.ts';
import { addController } from './commands/controller.ts';
import { addDatacentersLs } from './commands/datacenters/ls.ts';
import { addDoctor } from './commands/doctor.ts';
import { addDrone } from './commands/drone.ts';
import { addDronesDrain } from './commands/drones/drain.ts';
import { addDronesLs } from './commands/drones/ls.ts';
import { addDronesMarkLost } from './commands/drones/mark-lost.ts';
import { addDronesShow } from './commands/drones/show.ts';
import { addDronesUndrain } from './commands/drones/undrain.ts';
import { addEnvHistory } from './commands/env/history.ts';
import { addEnvLs } from './commands/env/ls.ts';
import { addEnvRevoke } from './commands/env/revoke.ts';
import { addEnvShow } from './commands/env/show.ts';
import { addEventsTail } from './commands/events/tail.ts';
import { addHoldOffEnd } from './commands/hold-off/end.ts';
import { addHoldOffShow } from './commands/hold-off/show.ts';
import { addKeysAllowRenewal, addKeysBlockRenewal } from './commands/keys/renewal.ts';
import { addKeysHistory, addKeysWaiters } from './commands/keys/key-pages.ts';
import { addKeysLs } from './commands/keys/ls.ts';
import { addKeysRevoke } from './commands/keys/revoke.ts';
import { addKeysShow } from './commands/keys/show.ts';
import { addLeasesAllowRenewal, addLeasesBlockRenewal } from './commands/leases/renewal.ts';
import { addLeasesGuard } from './commands/leases/guard.ts';
import { addLeasesHistory } from './commands/leases/history.ts';
import { addLeasesLs } from './commands/leases/ls.ts';
import { addLeasesRevoke } from './commands/leases/revoke.ts';
import { addLeasesRun } from './commands/leases/run.ts';
import { addLeasesShow } from './commands/leases/show.ts';
import { addLeasesTree } from './commands/leases/tree.ts';
import { addLeasesWaiters } from './commands/leases/waiters.ts';
import { addMigrate } from './commands/migrate.ts';
import { addReservationsCancelMove } from './commands/reservations/cancel-move.ts';
import { addReservationsLs } from './commands/reservations/ls.ts';
import { addReservationsMove } from './commands/reservations/move.ts';
import { addReservationsReserve } from './commands/reservations/reserve.ts';
import { addReservationsResolve } from './commands/reservations/resolve.ts';
import { addReservationsShow } from './commands/reservations/show.ts';
import { addTokensCreate } from './commands/tokens/create.ts';
import { addTokensLs } from './commands/tokens/ls.ts';
import { addTokensRevoke } from './commands/tokens/revoke.ts';
import { addTokensShow } from './commands/tokens/show.ts';
import { addUp } from './commands/up.ts';

type AddCommand = (cli: Cli, parent: Command) => void;

/** Commands that stand by themselves. */
const COMMANDS: readonly AddCommand[] = [
  addUp,
  addConnect,
  addDoctor,
  addController,
  addConsole,
  addDrone,
  addMigrate,
];

/** Commands by what they are about. */
const GROUPS: readonly (readonly [
  name: string,
  description: string,
  commands: readonly AddCommand[],
])[] = [
  [
    'keys',
    'List, inspect and revoke keys',
    [
      addKeysLs,
      addKeysShow,
      addKeysRevoke,
      addKeysBlockRenewal,
      addKeysAllowRenewal,
      addKeysWaiters,
      addKeysHistory,
    ],
  ],
  [
    'leases',
    'List, inspect and revoke leases, and run commands under them',
    [
      addLeasesLs,
      addLeasesShow,
      addLeasesTree,
      addLeasesWaiters,
      addLeasesRevoke,
      addLeasesBlockRenewal,
      addLeasesAllowRenewal,
      addLeasesHistory,
      addLeasesRun,
      addLeasesGuard,
    ],
  ],
  [
    'env',
    'List, inspect and revoke environments',
    [addEnvLs, addEnvShow, addEnvRevoke, addEnvHistory],
  ],
  [
    'reservations',
    'Show which datacenter keys live in, and move them',
    [
      addReservationsReserve,
      addReservationsResolve,
      addReservationsMove,
      addReservationsCancelMove,
      addReservationsLs,
      addReservationsShow,
    ],
  ],
  ['datacenters', 'Show which datacenters can be reached', [addDatacentersLs]],
  [
    'backends',
    'List, follow and stop backends',
    [addBackendsLs, addBackendsShow, addBackendsTerminate, addBackendsWatch],
  ],
  [
    'drones',
    'List drones, and take them out of use',
    [addDronesLs, addDronesShow, addDronesDrain, addDronesUndrain, addDronesMarkLost],
  ],
  [
    'hold-off',
    'Show or end the hold-off of new grants after a restore',
    [addHoldOffShow, addHoldOffEnd],
  ],
  ['admin', 'Make administrators of the console', [addAdminCreate]],
  [
    'tokens',
    'Create, list and revoke API tokens',
    [addTokensCreate, addTokensLs, addTokensShow, addTokensRevoke],
  ],
  ['events', 'Follow events', [addEventsTail]],
  ['audit', 'Show what operators did', [addAuditLs, addAuditExport]],
  ['config', 'Show the configuration', [addConfigPrint]],
];

const HELP = `
Without LEASEHOLD_URL and LEASEHOLD_TOKEN, commands talk to what \`leasehold up\` runs in
LEASEHOLD_HOME (.leasehold unless set), as its administrator. LEASEHOLD_URL may name several
controllers of one database, separated by commas: one that does not answer is skipped.

Exit codes: 0 done, 1 refused, 2 wrong usage, 3 unreachable.`;

/** The whole command line. Nothing in it prints or exits by itself. */
export function createProgram(cli: Cli): Command {
  const program = new Command('leasehold')
    .description('Who holds a key right now, and until when')
    .version(packageJson.version)
    .option('--json', 'print answers as JSON, errors too')
    .showSuggestionAfterError()
    .addHelpText('after', HELP);
  prepare(program, cli);
  for (const add of COMMANDS) add(cli, program);
  for (const [name, description, commands] of GROUPS) {
    const group = program.command(name).description(description);
    for (const add of commands) add(cli, group);
  }
  return program;
}

/** Subcommands inherit these settings, if they are made before the subcommands. */
function prepare(program: Command, cli: Cli): void {
  program.exitOverride().configureOutput({
    writeOut: cli.context.stdout,
    // Errors are printed once, by the code that runs the program.
    writeErr: () => undefined,
  });
}
