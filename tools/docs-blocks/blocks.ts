/** The code blocks of Markdown pages, with what their hidden marks say about them. */

/** How a block is to be run; at most one mark, in a comment right above the block. */
export type Mark =
  /** `<!-- file: PATH -->`: it is this file, or a piece of it, which has tests of its own. */
  | { readonly kind: 'file'; readonly value: string }
  /** `<!-- setup: NAME -->`: it runs where `setups/NAME.ts` says `// <block>`. */
  | { readonly kind: 'setup'; readonly value: string };

export interface Block {
  /** From the folder of the repository. */
  readonly page: string;
  /** The line of its fence, from 1. */
  readonly line: number;
  /** What follows the fence; empty when nothing does. */
  readonly language: string;
  readonly mark: Mark | undefined;
  readonly lines: readonly string[];
}

const FENCE = /^(?<indent> *)(?<fence>`{3,}|~{3,})(?<language>\S*)[^`]*$/u;
const MARK = /^ *<!-- (?<kind>file|setup): (?<value>\S+) -->$/u;

/** All fenced blocks of a page, in order. @throws on a fence that is not closed. */
export function blocksOf(page: string, text: string): Block[] {
  const blocks: Block[] = [];
  const lines = text.split('\n');
  let at = 0;
  while (at < lines.length) {
    const open = FENCE.exec(lines[at] ?? '')?.groups;
    if (open === undefined) {
      at += 1;
      continue;
    }
    const { indent = '', fence = '', language = '' } = open;
    const end = lines.findIndex((line, index) => index > at && line.trim() === fence);
    if (end < 0) throw new Error(`${page}:${String(at + 1)}: this block has no end`);
    blocks.push({
      page,
      line: at + 1,
      language,
      mark: markAbove(lines, at),
      lines: lines
        .slice(at + 1, end)
        .map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line)),
    });
    at = end + 1;
  }
  return blocks;
}

/** Where a block is, for people. */
export function placeOf({ page, line }: Block): string {
  return `${page}:${String(line)}`;
}

function markAbove(lines: readonly string[], at: number): Mark | undefined {
  const above = lines.slice(0, at).findLast((line) => line.trim() !== '') ?? '';
  const found = MARK.exec(above)?.groups;
  if (found === undefined) return undefined;
  const { kind, value = '' } = found;
  return kind === 'file' ? { kind, value } : { kind: 'setup', value };
}
