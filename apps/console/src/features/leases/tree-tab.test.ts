import { describe, expect, test } from 'vitest';
import type { LeaseTreeNode } from '@leasehold/keys-core/leases';
import { matching, rowsOf, stepOf, treeOf, type TreeRow } from './tree-tab.tsx';

const nodes = (...names: string[]): LeaseTreeNode[] =>
  names.map((namespace) => ({ namespace, held: 1, expiring: 0, expired: 0, free: 0, waiters: 0 }));

// In the order of bytes, as the database answers: "-" comes before ".".
const SOME = nodes('', 'a', 'a-b', 'a-b.c', 'a.b', 'a.b.c', 'z');
const CLOSED = { toggled: new Map<string, boolean>(), isAllOpen: false };
const rowsOfSome = (closed: string[] = []): TreeRow[] =>
  rowsOf(treeOf(SOME), SOME.length, {
    toggled: new Map(closed.map((name) => [name, false])),
    isAllOpen: false,
  });
const names = (rows: readonly TreeRow[]): string[] => rows.map(({ node }) => node.namespace);

describe('the tree of namespaces', () => {
  test('puts each namespace below its parent, even if others sort between them', () => {
    const [root] = treeOf(SOME);

    expect(root?.children.map(({ label }) => label)).toEqual(['a', 'a-b', 'z']);
    expect(root?.children[0]?.children[0]).toMatchObject({ namespace: 'a.b', label: 'b' });
    expect(root?.children[1]?.children[0]).toMatchObject({ namespace: 'a-b.c', label: 'c' });
  });

  test('begins with the namespace that was asked for, under its whole name', () => {
    expect(treeOf(nodes('a.b', 'a.b.c'))).toMatchObject([
      { label: 'a.b', children: [{ label: 'c' }] },
    ]);
  });

  test('shows each part as a root to a caller that may see only parts', () => {
    expect(treeOf(nodes('a.b', 'z')).map(({ label }) => label)).toEqual(['a.b', 'z']);
  });

  test('opens all of a few namespaces, but only the first level of many', () => {
    const many = nodes('', ...Array.from({ length: 50 }, (_, n) => `n${String(n + 10)}`), 'n59.x');

    expect(names(rowsOfSome())).toEqual(['', 'a', 'a.b', 'a.b.c', 'a-b', 'a-b.c', 'z']);
    expect(names(rowsOf(treeOf(many), many.length, CLOSED))).not.toContain('n59.x');
    expect(rowsOf(treeOf(many), many.length, CLOSED)).toHaveLength(51);
  });

  test('keeps a closed row closed, with its place among its siblings', () => {
    const rows = rowsOfSome(['a']);

    expect(names(rows)).toEqual(['', 'a', 'a-b', 'a-b.c', 'z']);
    expect(rows[1]).toMatchObject({ level: 2, place: 1, siblingCount: 3, isOpen: false });
  });

  test('opens everything during a search, even what was closed before', () => {
    const toggled = new Map([['a', false]]);

    expect(names(rowsOf(treeOf(SOME), SOME.length, { toggled, isAllOpen: true }))).toContain('a.b');
  });

  test('keeps, in a search, the namespaces that contain the text and their ancestors', () => {
    const found = matching(SOME, 'A.B').map(({ namespace }) => namespace);

    expect(found).toEqual(['', 'a', 'a.b', 'a.b.c']);
    expect(matching(SOME, 'nothing')).toEqual([]);
  });

  test('lays out ten thousand namespaces at once', () => {
    const many = nodes(
      '',
      ...Array.from({ length: 10_000 }, (_, n) => `n${String(n).padStart(5, '0')}`),
    );

    expect(rowsOf(treeOf(many), many.length, CLOSED)).toHaveLength(10_001);
  });
});

describe('a step in the tree', () => {
  const rows = rowsOfSome();
  const at = (name: string): number => names(rows).indexOf(name);

  test('goes up and down the rows in sight, and stays at the ends', () => {
    expect(stepOf(rows, 0, 'ArrowUp')).toEqual({ to: 0 });
    expect(stepOf(rows, 0, 'ArrowDown')).toEqual({ to: 1 });
    expect(stepOf(rows, rows.length - 1, 'ArrowDown')).toEqual({ to: rows.length - 1 });
    expect(stepOf(rows, 3, 'Home')).toEqual({ to: 0 });
    expect(stepOf(rows, 3, 'End')).toEqual({ to: rows.length - 1 });
  });

  test('to the right opens, then goes in; to the left closes, then goes out', () => {
    const closed = rowsOfSome(['a']);

    expect(stepOf(closed, 1, 'ArrowRight')).toEqual({ toggle: 'a', isOpen: true });
    expect(stepOf(rows, at('a'), 'ArrowRight')).toEqual({ to: at('a.b') });
    expect(stepOf(rows, at('z'), 'ArrowRight')).toBeNull();
    expect(stepOf(rows, at('a'), 'ArrowLeft')).toEqual({ toggle: 'a', isOpen: false });
    expect(stepOf(rows, at('a.b.c'), 'ArrowLeft')).toEqual({ to: at('a.b') });
  });

  test('does nothing for other keys', () => {
    expect(stepOf(rows, 0, 'j')).toBeNull();
    expect(stepOf(rows, 99, 'ArrowDown')).toBeNull();
  });
});
