import type { ReactNode } from 'react';

interface ColumnLook {
  /** The narrowest page on which the column is shown; by default on every page. */
  readonly from?: 'sm' | 'md' | 'lg' | 'xl';
  /** The field by which this column sorts the list. */
  readonly sort?: string;
  readonly align?: 'end';
  /** Text of any length: the column takes the room that the others leave, and is cut there. */
  readonly isFilling?: true;
  /** Only screen readers read its head. */
  readonly isHeadHidden?: true;
}

/** A column of a list. No two columns of a list have the same header. */
export interface Column<Item> extends ColumnLook {
  readonly header: string;
  readonly cell: (item: Item) => ReactNode;
}

export function column<Item>(
  header: string,
  look: ColumnLook,
  cell: (item: Item) => ReactNode,
): Column<Item> {
  return { header, ...look, cell };
}
