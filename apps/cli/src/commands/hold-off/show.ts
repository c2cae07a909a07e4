import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { withDatacenter } from '../../options.ts';
import { holdOffText } from '../../output/hold-off.ts';

/** `leasehold hold-off show`. */
export function addHoldOffShow(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'show', 'Show whether new grants are held off, and why');
  withDatacenter(command).action(async ({ datacenter }: { datacenter?: string }) => {
    const holdOff = await cli.client().holdOff.get.query({ datacenter });
    cli.show({ holdOff }, () =>
      holdOff === null ? 'New grants are not held off.' : holdOffText(holdOff),
    );
  });
}
