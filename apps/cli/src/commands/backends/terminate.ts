import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { withDatacenter, withReason } from '../../options.ts';

/** `leasehold backends terminate`. */
export function addBackendsTerminate(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'terminate <backend>',
    'Stop a backend; its key is free when it has ended',
  );
  withReason(withDatacenter(command), false)
    .option('--hard', 'kill it at once, without a stop signal')
    .action(
      async (
        backendId: string,
        options: { hard?: boolean; reason?: string; datacenter?: string },
      ) => {
        const isHard = options.hard === true;
        const answer = await cli.client().backends.terminate.mutate({
          backendId,
          mode: isHard ? 'hard' : 'soft',
          reason: options.reason,
          datacenter: options.datacenter,
        });
        cli.show(answer, () => {
          const how = isHard ? 'is being killed' : 'was told to stop';
          return `${backendId} ${how}. Follow it with \`leasehold backends watch ${backendId}\`.`;
        });
      },
    );
}
