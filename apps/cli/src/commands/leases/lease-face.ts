import type { ControllerApi } from '@leasehold/client';
import type { Command } from 'commander';
import { RECENT_ENVIRONMENTS, RECENT_GRANTS, type Recency } from '../../arguments/recent.ts';
import { parseScope, SCOPE_HELP, scopeText, type Scope } from '../../arguments/scope.ts';
import { refusal } from '../../failures/failure.ts';
import { withDatacenter, type ActOptions } from '../../options.ts';
import type { LeaseView } from '../../views.ts';

/** How leases and environments are called on the command line, and where they are queried. */
export interface LeaseFace {
  readonly noun: 'lease' | 'environment';
  readonly aNoun: string;
  readonly router: 'leases' | 'environments';
  /** The group of its commands. */
  readonly group: 'leases' | 'env';
  readonly argument: string;
  readonly recency: Recency;
}

export const LEASES: LeaseFace = {
  noun: 'lease',
  aNoun: 'a lease',
  router: 'leases',
  group: 'leases',
  argument: '<scope>',
  recency: RECENT_GRANTS,
};

export const ENVIRONMENTS: LeaseFace = {
  noun: 'environment',
  aNoun: 'an environment',
  router: 'environments',
  group: 'env',
  argument: '<environment>',
  recency: RECENT_ENVIRONMENTS,
};

/** The options of a command that names one lease or environment. */
export interface ScopeOptions extends ActOptions {
  readonly namespace?: string;
}

/** Adds the options of every command that names one lease or environment. */
export function withScope(command: Command): Command {
  return withDatacenter(command)
    .option('-n, --namespace <namespace>', 'its namespace; the whole argument is then its key')
    .addHelpText('after', SCOPE_HELP);
}

/**
 * The lease or environment that an argument and its options name.
 * @throws {CliFailure} `lease.not_found`, `environment.not_found`: never held, or not visible to the caller.
 */
export async function findLease(
  { router, noun, group }: LeaseFace,
  client: ControllerApi,
  text: string,
  { namespace, datacenter }: ScopeOptions,
): Promise<{ scope: Scope; lease: LeaseView }> {
  const scope = parseScope(text, namespace);
  const lease = await client[router].get.query({ ...scope, datacenter });
  if (lease !== null) return { scope, lease };
  throw refusal(
    `${noun}.not_found`,
    `There is no ${noun} ${scopeText(scope)}: nobody ever held it.`,
    `Names are compared byte for byte. \`leasehold ${group} ls --all\` shows all.`,
  );
}
