/** Blocking and allowing renewal: an act and its reverse, on keys and on leases. */
import type { ControllerApi } from '@leasehold/client';
import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { withReason, type ActOptions } from '../options.ts';

const ACTS = { blockRenewal: 'block-renewal', allowRenewal: 'allow-renewal' } as const;
type RenewalAct = keyof typeof ACTS;

/** What the two commands are about. */
interface Renewable<Options> {
  readonly router: 'keys' | 'leases';
  /** The argument of the commands. */
  readonly argument: string;
  readonly descriptions: Readonly<Record<RenewalAct, string>>;
  /** Adds the options with which it is found. */
  readonly withOptions: (command: Command) => Command;
  readonly find: (
    client: ControllerApi,
    text: string,
    options: Options,
  ) => Promise<{ leaseId: string; datacenter?: string | undefined; shownAs: string }>;
}

/** Adds `block-renewal` and `allow-renewal`. */
export function addRenewal<Options extends ActOptions>(
  cli: Cli,
  parent: Command,
  { router, argument, descriptions, withOptions, find }: Renewable<Options>,
): void {
  for (const act of ['blockRenewal', 'allowRenewal'] as const) {
    const command = cli.leaf(parent, `${ACTS[act]} ${argument}`, descriptions[act]);
    withReason(withOptions(command), false).action(async (text: string, options: Options) => {
      const client = cli.client();
      const { leaseId, datacenter, shownAs } = await find(client, text, options);
      const { reason } = options;
      const answer = await client[router][act].mutate({ leaseId, reason, datacenter });
      cli.show(answer, () => renewalText(act, shownAs, answer.changed));
    });
  }
}

function renewalText(act: RenewalAct, name: string, changed: boolean): string {
  if (!changed) {
    const state = act === 'blockRenewal' ? 'blocked' : 'allowed';
    return `Nothing changed: renewal of ${name} was ${state} already, or nobody holds it.`;
  }
  return act === 'blockRenewal'
    ? `${name} is not renewed any more, and will expire.`
    : `${name} may be renewed again.`;
}
