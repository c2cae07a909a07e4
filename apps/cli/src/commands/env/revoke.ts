import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { ENVIRONMENTS, findLease } from '../../arguments/lease-lookup.ts';
import { parseScope } from '../../arguments/scope.ts';
import {
  assertHeld,
  revokedText,
  revokeInput,
  withRevokeOptions,
  type LeaseRevokeOptions,
} from '../leases/revoke.ts';

/** `leasehold env revoke`. */
export function addEnvRevoke(cli: Cli, parent: Command): void {
  withRevokeOptions(cli.leaf(parent, 'revoke <environment>', 'Revoke an environment')).action(
    async (text: string, options: LeaseRevokeOptions) => {
      const client = cli.client();
      const scope = parseScope(text, options.namespace);
      const lease = await findLease(ENVIRONMENTS, client, scope, options.datacenter);
      const answer = await client.environments.revoke.mutate(revokeInput(lease.leaseId, options));
      assertHeld(ENVIRONMENTS, answer.outcome, { scope, phase: lease.phase });
      cli.show(answer, () => revokedText(scope, lease.holder, answer));
    },
  );
}
