import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { findKey } from '../../arguments/key-lookup.ts';
import { withKey, withReason } from '../../options.ts';
import { printable } from '../../output/printable.ts';
import { renewalText, type RenewalAct } from '../renewal.ts';

interface KeyActOptions {
  readonly namespace: string;
  readonly datacenter?: string;
  readonly reason?: string;
}

/** `leasehold keys block-renewal`. */
export function addKeysBlockRenewal(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'block-renewal <name>',
    'Let a key expire: it is not renewed any more, and its backend stops by its deadline',
  );
  withReason(withKey(command), false).action(acting(cli, 'blockRenewal'));
}

/** `leasehold keys allow-renewal`. */
export function addKeysAllowRenewal(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'allow-renewal <name>',
    'Undo block-renewal, if the key has not expired and its backend is not stopping',
  );
  withReason(withKey(command), false).action(acting(cli, 'allowRenewal'));
}

function acting(cli: Cli, act: RenewalAct) {
  return async (name: string, options: KeyActOptions): Promise<void> => {
    const { reason, ...where } = options;
    const client = cli.client();
    const { leaseId, datacenter } = await findKey(client, { name, ...where });
    const answer = await client.keys[act].mutate({ leaseId, reason, datacenter });
    cli.show(answer, () => renewalText(act, printable(name), answer.changed));
  };
}
