import { basename } from 'node:path';
import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { RUN_EXIT_CODES } from '../../exit-codes.ts';
import { CliFailure } from '../../failure.ts';
import { withScope } from '../../lease-lookup.ts';
import { printable } from '../../output/printable.ts';
import { findCommand } from '../../run/find-command.ts';
import { checkedGraceMs, withRunOptions, type RunCommandOptions } from '../../run/run-options.ts';
import { runWithLease } from '../../run/run-with-lease.ts';
import { parseScope } from '../../scope.ts';

const HELP = `
  leasehold leases run jobs/nightly -- ./nightly.sh --full

CMD runs while the lease is held, and the lease is renewed meanwhile. CMD finds
LEASEHOLD_FENCING_TOKEN, LEASEHOLD_LEASE_ID, LEASEHOLD_LEASE_NAMESPACE and LEASEHOLD_LEASE_KEY in its
environment: pass the token to what it writes to, so that a later holder's work is told from it.

When the lease cannot be renewed, CMD is sent SIGTERM, and SIGKILL before the lease is lost and anybody
else can be granted it; when it was taken away, SIGKILL at once, or with the next renewal where the
lease is in another --datacenter. CMD runs in a session of its own:
signals go to all of it, and what is left of it when CMD ends is killed. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on; Ctrl-Z stops CMD too, and its lease runs out meanwhile. The
standard streams are CMD's; only what goes wrong is said on the standard error.

Exit codes: those of CMD, 128 + N when signal N ended it; 125 when it was stopped because its lease was
lost. Without CMD having run: 1, or --held-exit, when somebody else holds the lease; 2 for wrong usage;
3 when no controller answers; 126 when CMD may not be executed; 127 when none exists; 128 + N when
signal N ended the wait.

A process of its own, the guard, keeps the deadline: CMD is stopped in time also when this command is
killed, stopped or hangs. Not covered: processes of CMD that leave its session, as daemons do, and those
of another user, as with sudo, are not signalled. If this command and its guard are killed at once, the
kernel kills CMD where \`setpriv\` of util-linux is installed, but not what CMD has started.`;

/** `leasehold leases run`: a command under a lease. */
export function addLeasesRun(cli: Cli, parent: Command): void {
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
        datacenter: options.datacenter,
        comment: options.comment ?? basename(words[0] ?? ''),
      });
    });
}

/** Before anybody is kept waiting, or a lease is taken from others. */
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
