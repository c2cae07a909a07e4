import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { findKey } from '../../arguments/key-lookup.ts';
import { withKey, withReason } from '../../options.ts';
import { printable } from '../../output/printable.ts';

/** `leasehold keys block-renewal`. */
export function addKeysBlockRenewal(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'block-renewal <name>',
    'Let a key expire: it is not renewed any more, and its backend stops by its deadline',
  );
  withReason(withKey(command), false).action(
    async (
      name: string,
      {
        namespace,
        datacenter,
        reason,
      }: { namespace: string; datacenter?: string; reason?: string },
    ) => {
      const client = cli.client();
      const found = await findKey(client, { name, namespace, datacenter });
      const answer = await client.keys.blockRenewal.mutate({
        leaseId: found.leaseId,
        reason,
        datacenter: found.datacenter,
      });
      cli.show(answer, () =>
        answer.changed
          ? `${printable(name)} is not renewed any more, and will expire.`
          : `Nothing changed: renewal of ${printable(name)} was blocked already, or nobody holds it.`,
      );
    },
  );
}
