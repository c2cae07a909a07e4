import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { findKey } from '../../arguments/key-lookup.ts';
import { withKey, withReason } from '../../options.ts';
import { printable } from '../../output/printable.ts';

/** `leasehold keys allow-renewal`. */
export function addKeysAllowRenewal(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'allow-renewal <name>',
    'Undo block-renewal, if the key has not expired and its backend is not stopping',
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
      const answer = await client.keys.allowRenewal.mutate({
        leaseId: found.leaseId,
        reason,
        datacenter: found.datacenter,
      });
      cli.show(answer, () =>
        answer.changed
          ? `${printable(name)} may be renewed again.`
          : `Nothing changed: renewal of ${printable(name)} was allowed already, or nobody holds it.`,
      );
    },
  );
}
