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

When the lease cannot be renewed, CMD is sent SIGTERM, and SIGKILL --grace later, before anybody else
can be granted the lease; when it was taken away, SIGKILL at once. CMD runs in a session and a process
group of its own: signals go to all of the group, and what is left of it when CMD ends is killed.
SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on; Ctrl-Z stops CMD too, and a lease runs out meanwhile.
Nothing is printed but errors: the standard streams are CMD's.

Exit codes: those of CMD, 128 + N when signal N ended it; and, without CMD having run, 1 when somebody
else holds the lease, 2 for wrong usage, 3 when no controller answers, 126 when CMD may not be executed,
127 when there is none, 128 + N when signal N ended the wait; 125 when the lease was lost.

Not covered: processes of CMD that leave its process group (as daemons do, and what sudo starts) are
not signalled. If this command is killed, CMD is sent SIGTERM, and SIGKILL by the deadline; if its guard
process is killed as well, CMD is killed by the kernel where \`setpriv\` of util-linux is installed, but
not what CMD has started.`;

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
