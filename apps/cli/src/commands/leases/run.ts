import { basename } from 'node:path';
import type { Command } from 'commander';
import { parseScope } from '../../arguments/scope.ts';
import type { Cli } from '../../cli.ts';
import { RUN_EXIT_CODES } from '../../failures/exit-codes.ts';
import { CliFailure, usageFailure } from '../../failures/failure.ts';
import { printable } from '../../output/printable.ts';
import { findCommand } from '../../run/find-command.ts';
import { checkedGraceMs, withRunOptions, type RunCommandOptions } from '../../run/run-options.ts';
import { runGuard } from '../../run/run-guard.ts';
import { runWithLease } from '../../run/run-with-lease.ts';
import { withScope } from './lease-face.ts';

const HELP = `
  leasehold leases run jobs/nightly -- ./nightly.sh --full

The lease is renewed while CMD runs. CMD finds LEASEHOLD_FENCING_TOKEN, LEASEHOLD_LEASE_ID,
LEASEHOLD_LEASE_NAMESPACE and LEASEHOLD_LEASE_KEY in its environment. Send the token with every write,
so that the store can refuse it after a later holder has written. CMD does not find LEASEHOLD_TOKEN there,
unless --pass-token is given, nor any other secret of Leasehold's; DATABASE_URL is passed, for CMD may need it.

If the lease cannot be renewed, CMD gets SIGTERM, and SIGKILL before the lease is lost and anybody else
can be granted it. If the lease was revoked, CMD gets SIGKILL at once, or at the next renewal if the
lease is in another --datacenter.

CMD runs in a session of its own. Signals go to the whole session, and what is left of it when CMD ends
is killed. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on. Ctrl-Z stops CMD too, and its lease expires.
The standard streams are those of CMD. Only problems are written to the standard error.

Exit codes: that of CMD, or 128 + N if signal N ended it; 125 if it was stopped because its lease was
lost. If CMD did not run: 6, or --held-exit, if somebody else holds the lease; 2 for wrong usage; 3 if no
controller answers; 5 if the token does not allow it; 126 if CMD may not be executed, or was not started; 127 if it does not exist; 128 + N if signal N ended
the wait.

A separate process, the guard, enforces the deadline: CMD is stopped in time even if this command is
killed or stopped, or hangs. Not covered: processes that leave CMD's session, as daemons do, and
processes of another user, as with sudo, get no signals. If this command and its guard are killed
together, the kernel kills CMD if \`setpriv\` of util-linux is installed, but not what CMD has started.`;

/** `leasehold leases run`: a command under a lease. */
export function addRun(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'run <scope> <command...>',
    'Hold a lease while a command runs, and end the command before the lease ends',
  );
  withRunOptions(withScope(command))
    .usage('[options] <scope> -- <command...>')
    .addHelpText('after', HELP)
    .action(async (text: string, words: string[], options: RunCommandOptions) => {
      const scope = parseScope(text, options.namespace);
      const graceMs = checkedGraceMs(options);
      assertRunnable(words[0] ?? '', cli.context.environment['PATH'] ?? '');
      await runWithLease(cli, {
        ...{ scope, graceMs, command: words },
        ttlMs: options.ttl,
        waitMs: options.wait,
        holder: options.holder,
        heldExitCode: options.heldExit,
        isTokenPassed: options.passToken === true,
        datacenter: options.datacenter,
        comment: options.comment ?? basename(words[0] ?? ''),
      });
    });
}

/** Checks the command before it waits in line or takes a lease from others. */
function assertRunnable(name: string, searchPath: string): void {
  const { outcome } = findCommand(name, searchPath);
  if (outcome === 'found') return;
  const isThere = outcome === 'not_executable';
  throw new CliFailure(
    isThere ? `${printable(name)} may not be executed.` : `There is no command ${printable(name)}.`,
    {
      code: 'run.not_started',
      exitCode: isThere ? RUN_EXIT_CODES.notExecutable : RUN_EXIT_CODES.notFound,
    },
  );
}

/** `leasehold leases guard`: started by `leases run`. Not in the help, since nobody calls it. */
export function addGuard(cli: Cli, parent: Command): void {
  parent.command('guard', { hidden: true }).action(async () => {
    // A parent that is gone already is no error: then there is nothing to guard.
    if (process.send === undefined) {
      throw usageFailure('Only `leasehold leases run` starts a guard.');
    }
    await runGuard(cli.context.environment);
  });
}
