import { Anchor, Button, Code } from '@mantine/core';
import { parseAsString, useQueryStates } from 'nuqs';
import type { Outputs } from '~/lib/api/api.ts';
import { useDatacenterFilter } from '~/lib/datacenters.ts';
import { count, counted } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { DatacenterMenu } from '~/resources/list/list-parts.tsx';
import { SearchBox } from '~/ui/filters.tsx';
import { FilterRow } from '~/ui/page.tsx';
import { DataAge, StaleScope } from '~/ui/stale.tsx';
import { EmptyState, ErrorState, Notice, UnreachableNotice } from '~/ui/states.tsx';
import { LoadingTree, NamespaceTree } from './namespace-tree.tsx';
import { matching } from './tree-rows.ts';
import classes from '../leases.module.css';

/** The namespaces with what is in each and below it. */
export function TreeTab() {
  const [{ q, within }, setState] = useQueryStates(
    { q: parseAsString.withDefault(''), within: parseAsString.withDefault('') },
    { history: 'push' },
  );
  const setQ = (next: string): void => void setState({ q: next === '' ? null : next });
  const setWithin = (next: string): void =>
    void setState({ within: next === '' ? null : next, q: null });
  const filter = useDatacenterFilter();
  const read = useLiveQuery('leases', 'tree', { namespace: within || undefined, ...filter.input });
  return (
    <>
      <FilterRow>
        <SearchBox
          label="Find a namespace"
          placeholder="Part of its name"
          value={q}
          onChange={setQ}
        />
        <DatacenterMenu filter={filter} />
        {within === '' ? null : (
          <Button variant="default" onClick={() => setWithin('')}>
            Show all namespaces
          </Button>
        )}
      </FilterRow>
      {read.data === undefined && read.isError ? (
        <ErrorState read={read} what="the namespaces" />
      ) : (
        <StaleScope read={read}>
          <UnreachableNotice unreachable={read.data?.unreachable} />
          <Tree tree={read.data} q={q} onWithin={setWithin} />
          <DataAge read={read} asOf={read.data?.asOf} />
        </StaleScope>
      )}
    </>
  );
}

function Tree({
  tree,
  q,
  onWithin,
}: {
  readonly tree: Outputs['leases']['tree'] | undefined;
  readonly q: string;
  readonly onWithin: (namespace: string) => void;
}) {
  if (tree === undefined) return <LoadingTree />;
  const items = q === '' ? tree.items : matching(tree.items, q);
  return (
    <>
      {tree.isComplete ? null : (
        <Notice
          tone="warn"
          action={
            q === '' ? undefined : (
              <Anchor component="button" type="button" size="sm" onClick={() => onWithin(q)}>
                Read what is in {q}
              </Anchor>
            )
          }
        >
          The tree is cut off: these are {count(tree.items.length)} of the uppermost namespaces. To
          see deeper ones, type the whole name of a namespace above.
        </Notice>
      )}
      {items.length > 0 ? (
        <NamespaceTree items={items} isAllOpen={q !== ''} />
      ) : (
        <div className={classes['nothing']}>
          {q === '' ? (
            <EmptyState title="No namespaces">
              A namespace appears with its first lease: <Code>leases.acquire(…)</Code> of{' '}
              <Code>@leasehold/client</Code>.
            </EmptyState>
          ) : (
            <EmptyState title="No namespaces match">
              {counted(tree.items.length, 'namespace')} were looked through.
            </EmptyState>
          )}
        </div>
      )}
    </>
  );
}
