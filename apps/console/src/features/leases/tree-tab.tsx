import { Anchor, Button, Code, Skeleton, VisuallyHidden } from '@mantine/core';
import { IconChevronRight } from '@tabler/icons-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { type KeyboardEvent, useId, useMemo, useRef, useState } from 'react';
import type { LeaseTreeNode } from '@leasehold/keys-core/leases';
import { textParam, useQueryStates } from '~/lib/address.ts';
import type { Outputs } from '~/lib/api/api.ts';
import { useDatacenterFilter } from '~/lib/datacenters.ts';
import { count, countText } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes } from '~/lib/routes.ts';
import { fieldText } from '~/lib/search.ts';
import { createSignal, useSignal } from '~/lib/signal.ts';
import { DatacenterMenu } from '~/resources/list/list-parts.tsx';
import { SearchBox } from '~/ui/filters.tsx';
import { FilterRow } from '~/ui/page.tsx';
import { DataAge, StaleScope } from '~/ui/stale.tsx';
import { EmptyState, ErrorState, isWhole, Notice, UnreachableNotice } from '~/ui/states.tsx';
import { Link, VisibleText } from '~/ui/text.tsx';
import classes from './leases.module.css';

// The tree of namespaces as rows. The API answers namespaces in the order of names, each with the counts of
// what is in it and below it; an ancestor always comes before what is below it.

/** A namespace, and those right below it. */
interface TreeNode extends LeaseTreeNode {
  /** Its last segment; for a root the whole name. */
  readonly label: string;
  readonly children: readonly TreeNode[];
}

/** A namespace as it is shown: how deep, and whether what is below it is shown too. */
export interface TreeRow {
  readonly node: TreeNode;
  /** From 1, as `aria-level` counts. */
  readonly level: number;
  /** Its place among its siblings, from 1. */
  readonly place: number;
  readonly siblingCount: number;
  readonly isOpen: boolean;
  readonly parent: string | null;
}

/** With no more namespaces than this, all of them are open unless somebody closed them. */
const ALL_OPEN_MAX = 40;

/** What is shown at the top: the root's name for people. */
const ROOT_LABEL = 'All namespaces';

/** The namespaces as a tree, in their order. One without a parent in the answer is a root. */
export function treeOf(items: readonly LeaseTreeNode[]): TreeNode[] {
  type Building = LeaseTreeNode & { label: string; children: Building[] };
  const byName = new Map<string, Building>();
  const roots: Building[] = [];
  for (const item of items) {
    const node: Building = { ...item, label: item.namespace || ROOT_LABEL, children: [] };
    byName.set(item.namespace, node);
    const parent = byName.get(parentOf(item.namespace) ?? '\0');
    if (parent === undefined) roots.push(node);
    else {
      node.label = item.namespace.slice(item.namespace.lastIndexOf('.') + 1);
      parent.children.push(node);
    }
  }
  return roots;
}

function parentOf(namespace: string): string | null {
  if (namespace === '') return null;
  const dot = namespace.lastIndexOf('.');
  return dot === -1 ? '' : namespace.slice(0, dot);
}

/** The namespaces whose name contains the text, in any case of letters, with their ancestors. */
export function matching(items: readonly LeaseTreeNode[], text: string): LeaseTreeNode[] {
  const wanted = text.toLowerCase();
  const kept = new Set<string>();
  for (const { namespace } of items) {
    if (!namespace.toLowerCase().includes(wanted)) continue;
    for (let at: string | null = namespace; at !== null; at = parentOf(at)) kept.add(at);
  }
  return items.filter(({ namespace }) => kept.has(namespace));
}

/** Which namespaces are open. */
interface Opening {
  /** The namespaces that a person opened or closed. */
  readonly toggled: ReadonlyMap<string, boolean>;
  /** Whether all are open, as while a search is shown. */
  readonly isAllOpen: boolean;
}

/** The rows in sight, from top to bottom. */
export function rowsOf(roots: readonly TreeNode[], count: number, opening: Opening): TreeRow[] {
  const isOpenBefore = (level: number): boolean => count <= ALL_OPEN_MAX || level === 1;
  const rows: TreeRow[] = [];
  const add = (nodes: readonly TreeNode[], level: number, parent: string | null): void =>
    nodes.forEach((node, index) => {
      const isOpen =
        node.children.length > 0 &&
        (opening.isAllOpen || (opening.toggled.get(node.namespace) ?? isOpenBefore(level)));
      rows.push({
        node,
        level,
        place: index + 1,
        siblingCount: nodes.length,
        isOpen,
        parent,
      });
      if (isOpen) add(node.children, level + 1, node.namespace);
    });
  add(roots, 1, null);
  return rows;
}

/** What a key does in the tree, after the pattern of the ARIA guide. */
type TreeStep =
  { readonly to: number } | { readonly toggle: string; readonly isOpen: boolean } | null;

export function stepOf(rows: readonly TreeRow[], at: number, key: string): TreeStep {
  const row = rows[at];
  if (row === undefined) return null;
  const { node, isOpen, parent } = row;
  const hasChildren = node.children.length > 0;
  switch (key) {
    case 'ArrowDown':
      return { to: Math.min(at + 1, rows.length - 1) };
    case 'ArrowUp':
      return { to: Math.max(at - 1, 0) };
    case 'Home':
      return { to: 0 };
    case 'End':
      return { to: rows.length - 1 };
    case 'ArrowRight':
      if (!hasChildren) return null;
      return isOpen ? { to: at + 1 } : { toggle: node.namespace, isOpen: true };
    case 'ArrowLeft': {
      if (isOpen) return { toggle: node.namespace, isOpen: false };
      const to = rows.findIndex((other) => other.node.namespace === parent);
      return to === -1 ? null : { to };
    }
    default:
      return null;
  }
}

/** The namespaces with what is in each and below it. */
export function TreeTab() {
  const [{ q, within }, setState] = useQueryStates({
    q: textParam.withDefault(''),
    within: textParam.withDefault(''),
  });
  const setQ = (next: string): void => setState({ q: next === '' ? null : next });
  const setWithin = (next: string): void =>
    setState({ within: next === '' ? null : next, q: null });
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
      ) : !isWhole(tree) ? null : (
        <div className={classes['nothing']}>
          {q === '' ? (
            <EmptyState title="No namespaces">
              A namespace appears with its first lease: <Code>leases.acquire(…)</Code> of{' '}
              <Code>@leasehold/client</Code>.
            </EmptyState>
          ) : (
            <EmptyState title="No namespaces match">
              {countText(tree.items.length, 'namespace')} were looked through.
            </EmptyState>
          )}
        </div>
      )}
    </>
  );
}

const ROW_PX = 32;
const SKELETON_ROWS = 8;

const COUNTS = [
  { of: 'held', label: 'Held' },
  { of: 'expiring', label: 'Expiring' },
  { of: 'expired', label: 'Expired' },
  { of: 'free', label: 'Free' },
  { of: 'waiters', label: 'Waiting' },
] as const;

/**
 * Namespaces as a tree: arrows walk it, Enter or a click shows the leases of one, children included.
 * However many there are, only the rows in sight are in the document.
 */
function NamespaceTree({
  items,
  isAllOpen,
}: {
  readonly items: readonly LeaseTreeNode[];
  readonly isAllOpen: boolean;
}) {
  const toggled = useSignal(openings);
  const roots = useMemo(() => treeOf(items), [items]);
  const rows = useMemo(
    () => rowsOf(roots, items.length, { toggled, isAllOpen }),
    [roots, items.length, toggled, isAllOpen],
  );
  const [active, setActive] = useState('');
  const activeAt = Math.max(
    0,
    rows.findIndex(({ node }) => node.namespace === active),
  );
  const scroller = useRef<HTMLDivElement>(null);
  const id = useId();
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
    // The active row stays in the document, even if it is scrolled out of sight.
    rangeExtractor: ({ startIndex, endIndex, overscan, count: rowCount }) => {
      const first = Math.max(0, startIndex - overscan);
      const last = Math.min(rowCount - 1, endIndex + overscan);
      const shown = Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => first + at);
      return activeAt < first
        ? [activeAt, ...shown]
        : activeAt > last
          ? [...shown, activeAt]
          : shown;
    },
  });
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>): void => {
    if (isChord(event)) return;
    if (event.key === 'Enter') {
      scroller.current?.querySelector<HTMLElement>('[data-active] a')?.click();
      return;
    }
    const step = stepOf(rows, activeAt, event.key);
    if (step === null || ('toggle' in step && isAllOpen)) return;
    event.preventDefault();
    if ('toggle' in step) openings.open(step.toggle, step.isOpen);
    else {
      setActive(rows[step.to]?.node.namespace ?? '');
      virtualizer.scrollToIndex(step.to);
    }
  };
  return (
    <div className={classes['box']}>
      <div
        ref={scroller}
        className={classes['scroll']}
        role="tree"
        aria-label="Namespaces"
        aria-activedescendant={`${id}-${String(activeAt)}`}
        tabIndex={0}
        onKeyDown={onKeyDown}
      >
        <TreeHead />
        <div
          role="presentation"
          className={classes['whole']}
          style={{ height: virtualizer.getTotalSize() }}
        >
          {virtualizer.getVirtualItems().map(({ index, start }) => {
            const row = rows[index];
            return row === undefined ? null : (
              <Row
                key={row.node.namespace}
                row={row}
                id={`${id}-${String(index)}`}
                top={start}
                isActive={index === activeAt}
                isFixed={isAllOpen}
                onActive={setActive}
              />
            );
          })}
        </div>
      </div>
    </div>
  );
}

/** Keys that belong to the browser, or to another program. */
function isChord(event: KeyboardEvent): boolean {
  return event.ctrlKey || event.metaKey || event.altKey;
}

function TreeHead() {
  return (
    <div className={classes['head']} aria-hidden>
      <span>Namespace</span>
      {COUNTS.map(({ of, label }) => (
        <span key={of} data-count={of}>
          {label}
        </span>
      ))}
    </div>
  );
}

function Row({
  row,
  id,
  top,
  isActive,
  isFixed,
  onActive,
}: {
  readonly row: TreeRow;
  readonly id: string;
  readonly top: number;
  readonly isActive: boolean;
  /** All rows are open and cannot be closed. */
  readonly isFixed: boolean;
  readonly onActive: (namespace: string) => void;
}) {
  const { node, level } = row;
  const { namespace } = node;
  const hasChildren = node.children.length > 0;
  return (
    <div
      id={id}
      role="treeitem"
      aria-level={level}
      aria-posinset={row.place}
      aria-setsize={row.siblingCount}
      aria-selected={isActive}
      {...(hasChildren ? { 'aria-expanded': row.isOpen } : {})}
      className={classes['row']}
      data-active={isActive || undefined}
      style={{ transform: `translateY(${String(top)}px)` }}
      onPointerDown={() => onActive(namespace)}
    >
      <span
        className={classes['node-name']}
        style={{ paddingInlineStart: `calc(${String(level - 1)} * var(--indent))` }}
      >
        <button
          type="button"
          tabIndex={-1}
          aria-hidden
          className={classes['toggle']}
          data-open={row.isOpen || undefined}
          data-leaf={!hasChildren || undefined}
          disabled={!hasChildren || isFixed}
          onClick={() => openings.open(namespace, !row.isOpen)}
        >
          <IconChevronRight size={14} aria-hidden />
        </button>
        <Link
          tabIndex={-1}
          href={routes.leases(namespace === '' ? {} : { q: fieldText('namespace', namespace) })}
          title={namespace}
        >
          <VisibleText>{node.label}</VisibleText>
        </Link>
      </span>
      {COUNTS.map(({ of, label }) => (
        <span
          key={of}
          data-count={of}
          data-none={node[of] === 0 || undefined}
          aria-hidden={node[of] === 0}
        >
          {count(node[of])}
          <VisuallyHidden> {label.toLowerCase()}</VisuallyHidden>
        </span>
      ))}
    </div>
  );
}

/** The placeholder while the tree is loading. */
function LoadingTree() {
  return (
    <div className={classes['box']} aria-busy>
      {Array.from({ length: SKELETON_ROWS }, (_row, index) => (
        <Skeleton key={index} height={14} m={9} width={`${String(60 - (index % 4) * 9)}%`} />
      ))}
    </div>
  );
}

const STORED = 'leasehold.namespaces';
/** More than anybody opens by hand; what was toggled first is forgotten first. */
const TOGGLED_MAX = 2_000;

const toggled = createSignal<ReadonlyMap<string, boolean>>(new Map());
let isRead = false;

const openings = {
  /** Like `subscribe` of a signal. */
  subscribe: (listener: () => void) => toggled.subscribe(listener),
  get: (): ReadonlyMap<string, boolean> => {
    if (!isRead && typeof window !== 'undefined') {
      isRead = true;
      toggled.set(new Map(readStored()));
    }
    return toggled.get();
  },
  open(namespace: string, isOpen: boolean): void {
    const next = new Map(openings.get());
    next.delete(namespace);
    next.set(namespace, isOpen);
    const kept = [...next].slice(-TOGGLED_MAX);
    toggled.set(new Map(kept));
    try {
      window.sessionStorage.setItem(STORED, JSON.stringify(kept));
    } catch {
      // Storage that is full or forbidden: the tree still opens, for this page.
    }
  },
};

function readStored(): [string, boolean][] {
  try {
    const value: unknown = JSON.parse(window.sessionStorage.getItem(STORED) ?? '[]');
    return Array.isArray(value) ? value.filter(isOpening) : [];
  } catch {
    return [];
  }
}

function isOpening(one: unknown): one is [string, boolean] {
  return Array.isArray(one) && typeof one[0] === 'string' && typeof one[1] === 'boolean';
}
