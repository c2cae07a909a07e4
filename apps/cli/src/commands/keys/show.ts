import type { KeyView } from '@leasehold/keys-core/keys';
import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { findKey } from '../../arguments/key-lookup.ts';
import { withKey } from '../../options.ts';
import { agoText } from '../../output/duration.ts';
import { printable, printableOr } from '../../output/printable.ts';
import { detailsText } from '../../output/table.ts';
import { remainingText } from './ls.ts';

/** `leasehold keys show`. */
export function addKeysShow(cli: Cli, parent: Command): void {
  withKey(cli.leaf(parent, 'show <name>', 'Show one key')).action(
    async (name: string, where: { namespace: string; datacenter?: string }) => {
      const key = await findKey(cli.client(), { name, ...where });
      cli.show(key, () => keyText(key));
    },
  );
}

function keyText(key: KeyView): string {
  return detailsText([
    ['key', printable(key.name)],
    ['namespace', printableOr(key.namespace)],
    ['tag', printableOr(key.tag)],
    ['phase', key.phase],
    ['remaining', remainingText(key)],
    ['holder', printableOr(key.holder)],
    ['backend', printableOr(key.backendId)],
    ['status', key.backendStatus ?? '-'],
    ['fencing token', key.fencingToken],
    ['lease id', key.leaseId],
    ['granted', `${key.grantedAt}, ${agoText(key.grantedAt, key.asOf)}`],
    ['renewed', `${key.renewedAt}, ${agoText(key.renewedAt, key.asOf)}`],
    ['expires', key.expiresAt],
    ['renewal', key.renewable ? 'allowed' : 'blocked'],
    ['waiters', String(key.waiters)],
    ['datacenter', key.datacenter],
  ]);
}
