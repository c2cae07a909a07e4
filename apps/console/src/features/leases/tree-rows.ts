/**
 * The tree of namespaces as rows. The API answers namespaces in the order of names, each with the
 * counts of what is in it and below it; an ancestor always comes before what is below it.
 */
import type { LeaseTreeNode } from '@leasehold/keys-core/leases';

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
