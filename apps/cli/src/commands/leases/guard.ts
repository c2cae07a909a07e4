import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { usageFailure } from '../../failure.ts';
import { runGuard } from '../../run/run-guard.ts';

/** `leasehold leases guard`: what `leases run` starts. In no help, for nobody calls it. */
export function addLeasesGuard(cli: Cli, parent: Command): void {
  parent.command('guard', { hidden: true }).action(async () => {
    if (!process.connected) throw usageFailure('Only `leasehold leases run` starts a guard.');
    await runGuard(cli.context.environment);
  });
}
