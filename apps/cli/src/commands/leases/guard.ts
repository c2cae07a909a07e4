import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { usageFailure } from '../../failures/failure.ts';
import { runGuard } from '../../run/run-guard.ts';

/** `leasehold leases guard`: started by `leases run`. Not in the help, since nobody calls it. */
export function addLeasesGuard(cli: Cli, parent: Command): void {
  parent.command('guard', { hidden: true }).action(async () => {
    // A parent that is gone already is no error: then there is nothing to guard.
    if (process.send === undefined) {
      throw usageFailure('Only `leasehold leases run` starts a guard.');
    }
    await runGuard(cli.context.environment);
  });
}
