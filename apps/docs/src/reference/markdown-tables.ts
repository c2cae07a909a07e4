/** The tables of a document. */

export interface Table {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** All tables of a text, in their order. */
export function tablesOf(text: string): Table[] {
  return [...text.matchAll(/(?:^\|.*\|$\n?){2,}/gmu)].map(([table]) => {
    const [head = [], , ...rows] = table.trim().split('\n').map(cellsOf);
    return { head, rows };
  });
}

function cellsOf(line: string): string[] {
  return line
    .slice(1, -1)
    .split(/(?<!\\)\|/u)
    .map((cell) => cell.trim());
}
