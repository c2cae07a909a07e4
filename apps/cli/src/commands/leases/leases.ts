/** Leases, and environments, which are leases on another face. */
import type { Command } from 'commander';
import { momentText, withMoment, type MomentOptions } from '../../output/moment-text.ts';
import {
  nothingText,
  ownFilter,
  recentFilter,
  withAll,
  withHolding,
  withInternal,
  withSort,
  type GrantListOptions,
} from '../../arguments/recent.ts';
import { parseScope, scopeText } from '../../arguments/scope.ts';
import type { Cli } from '../../cli.ts';
import {
  missingText,
  rowsText,
  withDatacenters,
  withPage,
  type ActOptions,
  type PageOptions,
} from '../../options.ts';
import {
  historyColumns,
  failingCallbackColumns,
  leaseColumns,
  leaseDetails,
  WAITER_COLUMNS,
} from '../../output/lease-text.ts';
import { printable } from '../../output/printable.ts';
import type { Column } from '../../output/table.ts';
import type { LeaseListInput, LeaseTreeNode } from '../../views.ts';
import { addRenewal } from '../renewal.ts';
import {
  ENVIRONMENTS,
  findLease,
  LEASES,
  withScope,
  type LeaseFace,
  type ScopeOptions,
} from './lease-face.ts';
import { addRevoke } from './revoke.ts';
import { addGuard, addRun } from './run.ts';

/** `leasehold leases`. */
export function addLeases(cli: Cli, program: Command): void {
  const parent = program
    .command('leases')
    .description('List, inspect and revoke leases, and run commands under them');
  addLs(cli, parent, LEASES);
  addShow(cli, parent, LEASES);
  addTree(cli, parent);
  addWaiters(cli, parent);
  addFailingCallbacks(cli, parent);
  addRevoke(cli, parent, LEASES);
  addRenewal(cli, parent, {
    router: 'leases',
    argument: '<scope>',
    descriptions: {
      blockRenewal:
        'Let a lease expire: it is not renewed any more, and its holder stops by its deadline',
      allowRenewal:
        'Undo block-renewal, if the lease has not expired; a holder that has stopped does not continue',
    },
    withOptions: withScope,
    find: async (client, text, options: ScopeOptions) => {
      const { scope, lease } = await findLease(LEASES, client, text, options);
      const { datacenter } = options;
      return { leaseId: lease.leaseId, datacenter, shownAs: scopeText(scope) };
    },
  });
  addHistory(cli, parent, LEASES);
  addRun(cli, parent);
  addGuard(cli, parent);
}

/** `leasehold env`. */
export function addEnvironments(cli: Cli, program: Command): void {
  const parent = program.command('env').description('List, inspect and revoke environments');
  addLs(cli, parent, ENVIRONMENTS);
  addShow(cli, parent, ENVIRONMENTS);
  addRevoke(cli, parent, ENVIRONMENTS);
  addHistory(cli, parent, ENVIRONMENTS);
}

type LsOptions = LeaseListInput & GrantListOptions & { readonly children: boolean };

function addLs(cli: Cli, parent: Command, { noun, router, recency }: LeaseFace): void {
  const about = noun === 'lease' ? 'and for how much longer' : 'and for which action';
  const command = cli.leaf(parent, 'ls', `List ${router}, who holds them, ${about}`);
  withAll(withDatacenters(withPage(command)), recency)
    .option('-n, --namespace <namespace>', 'in this namespace and its children')
    .option('--no-children', 'with --namespace: not in its children')
    .option('--name <name>', 'of this key')
    .option('--prefix <text>', 'whose key begins with this')
    .option('--contains <text>', 'whose name as it is printed contains this, whatever its case');
  withSort(withInternal(withHolding(command))).action(async (options: LsOptions) => {
    const { all, desc, children, internal, ...same } = options;
    const page = await cli.client()[router].list.query({
      ...same,
      ...recentFilter({ ...same, all }, recency),
      ...ownFilter(internal, same.namespace),
      includeChildren: children,
      direction: desc === true ? 'desc' : undefined,
    });
    const empty = nothingText(router, options, recency);
    cli.showPage(page, empty, leaseColumns(noun, options.datacenter));
  });
}

function addShow(cli: Cli, parent: Command, face: LeaseFace): void {
  const { noun, argument, router } = face;
  withMoment(withScope(cli.leaf(parent, `show ${argument}`, `Show one ${noun}`))).action(
    async (text: string, { at, ...options }: ScopeOptions & MomentOptions) => {
      if (at !== undefined) {
        const scope = parseScope(text, options.namespace);
        const input = { ...scope, datacenter: options.datacenter, at };
        const moment = await cli.client()[router].at.query(input);
        cli.show(moment, () => momentText(noun, scopeText(scope), moment));
        return;
      }
      const { lease } = await findLease(face, cli.client(), text, options);
      cli.show(lease, () => leaseDetails(noun, lease));
    },
  );
}

const TREE_COLUMNS: readonly Column<LeaseTreeNode>[] = [
  { head: 'namespace', text: nameInTree },
  ...(['held', 'expiring', 'expired', 'free', 'waiters'] as const).map(
    (count): Column<LeaseTreeNode> => ({
      head: count,
      text: (node) => String(node[count]),
      align: 'right',
    }),
  ),
];

type TreeOptions = ActOptions & { readonly internal?: boolean };

function addTree(cli: Cli, parent: Command): void {
  const command = withDatacenters(
    cli.leaf(parent, 'tree [namespace]', 'Count leases by namespace, children included'),
  );
  withInternal(command).action(async (namespace: string | undefined, options: TreeOptions) => {
    const { datacenter, internal } = options;
    const own = ownFilter(internal, namespace);
    const tree = await cli.client().leases.tree.query({ namespace, datacenter, ...own });
    cli.show(tree, () => {
      const rows =
        tree.items.length === 0
          ? 'No leases.'
          : rowsText(tree.items, TREE_COLUMNS, cli.listing.format);
      return `${rows}${missingText(tree.unreachable)}`;
    });
  });
}

/** The whole name, so that it can be grepped and pasted, indented by its depth. */
function nameInTree({ namespace }: LeaseTreeNode): string {
  if (namespace === '') return '(root)';
  return `${'  '.repeat(namespace.split('.').length)}${printable(namespace)}`;
}

type ScopePageOptions = PageOptions & Omit<ScopeOptions, 'reason'>;

function addWaiters(cli: Cli, parent: Command): void {
  const about = 'List who waits for a lease, first in line first';
  withPage(withScope(cli.leaf(parent, 'waiters <scope>', about))).action(
    async (text: string, { namespace, ...options }: ScopePageOptions) => {
      const scope = parseScope(text, namespace);
      const page = await cli.client().leases.waiters.query({ ...scope, ...options });
      cli.showPage(page, 'Nobody waits.', WAITER_COLUMNS);
    },
  );
}

function addFailingCallbacks(cli: Cli, parent: Command): void {
  const about = 'List the callbacks of expired leases that fail, with their errors';
  const command = withDatacenters(withPage(cli.leaf(parent, 'failing-callbacks', about)));
  command
    .option('-n, --namespace <namespace>', 'in this namespace and its children')
    .action(async (options: PageOptions & ActOptions & { readonly namespace?: string }) => {
      const page = await cli.client().leases.failingCallbacks.query(options);
      const columns = failingCallbackColumns(page.asOf, options.datacenter);
      cli.showPage(page, 'No callback fails.', columns);
    });
}

function addHistory(cli: Cli, parent: Command, face: LeaseFace): void {
  const { noun, aNoun, router, argument } = face;
  const empty = `Nothing has happened to this ${noun}, as far back as events are kept.`;
  const about = `Show what happened to ${aNoun}`;
  withPage(withScope(cli.leaf(parent, `history ${argument}`, about))).action(
    async (text: string, { namespace, ...options }: ScopePageOptions) => {
      const scope = parseScope(text, namespace);
      const client = cli.client()[router];
      const [page, newest] = await Promise.all([
        client.history.query({ ...scope, ...options }),
        client.get.query({ ...scope, datacenter: options.datacenter }),
      ]);
      cli.showPage(page, empty, historyColumns(page.items, newest));
    },
  );
}
