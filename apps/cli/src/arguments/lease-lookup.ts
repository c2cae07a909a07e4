import type { ControllerApi } from '@leasehold/client';
import type { Command } from 'commander';
import { refusal } from '../failures/failure.ts';
import { withDatacenter } from '../options.ts';
import { SCOPE_HELP, scopeText, type Scope } from './scope.ts';
import type { LeaseView } from '../views.ts';

/** How leases and environments are named on the command line, and where they are queried. */
export interface LeaseFace {
  readonly noun: 'lease' | 'environment';
  /** The group of its commands. */
  readonly group: 'leases' | 'env';
  readonly get: (
    client: ControllerApi,
    scope: Scope & { readonly datacenter: string | undefined },
  ) => Promise<LeaseView | null>;
}

export const LEASES: LeaseFace = {
  noun: 'lease',
  group: 'leases',
  get: (client, scope) => client.leases.get.query(scope),
};

export const ENVIRONMENTS: LeaseFace = {
  noun: 'environment',
  group: 'env',
  get: (client, scope) => client.environments.get.query(scope),
};

/** The options of an act on one lease or environment. */
export interface LeaseActOptions {
  readonly namespace?: string;
  readonly datacenter?: string;
  readonly reason?: string;
}

/** Adds the options of every command that names one lease or environment. */
export function withScope(command: Command): Command {
  return withDatacenter(command)
    .option('--namespace <namespace>', 'its namespace; the whole argument is then its key')
    .addHelpText('after', SCOPE_HELP);
}

/**
 * The lease or environment of this scope.
 * @throws {CliFailure} `lease.not_found`, `environment.not_found`: never held, or not visible to the caller.
 */
export async function findLease(
  face: LeaseFace,
  client: ControllerApi,
  scope: Scope,
  datacenter: string | undefined,
): Promise<LeaseView> {
  const view = await face.get(client, { ...scope, datacenter });
  if (view === null) {
    throw refusal(
      `${face.noun}.not_found`,
      `There is no ${face.noun} ${scopeText(scope)}: nobody ever held it.`,
      `Names are compared byte for byte. \`leasehold ${face.group} ls --all\` shows all.`,
    );
  }
  return view;
}
