import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { usageFailure } from '../../failures/failure.ts';
import { runGuard } from '../../run/run-guard.ts';

/** `leasehold leases guard`: what `leases run` starts. In no help, for nobody calls it. */
export function addLeasesGuard(cli: Cli, parent: Command): void {
  parent.command('guard', { hidden: true }).action(async () => {
    // Who started it may be gone already: then there is nothing to guard, and nothing to say.
    if (process.send === undefined) {
      throw usageFailure('Only `leasehold leases run` starts a guard.');
    }
    await runGuard(cli.context.environment);
  });
}
