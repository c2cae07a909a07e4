/** The words of a command line, or what is wrong with it. */
export type SplitCommand =
  | {
      readonly outcome: 'words';
      /** Variables that are set before the command, as in `MODE=dev node echo.mjs`. */
      readonly env: Readonly<Record<string, string>>;
      /** The command and its arguments; at least one. */
      readonly words: readonly string[];
    }
  | { readonly outcome: 'invalid'; readonly problem: string };

/** What starts something else than a word, where it is not quoted. */
const OPERATOR = /^[|&;<>()`\n]/u;
/** What a shell replaces, also between double quotes. */
const EXPANSION = /^\$[\w{(]|^`/u;
const ASSIGNMENT = /^(?<name>[A-Za-z_][A-Za-z0-9_]*)=(?<value>.*)$/su;

/**
 * Splits a command line into words as a shell does: by spaces, with quotes and backslashes. No shell runs the
 * words, so what only a shell can do (variables, pipes, redirections) is a problem, which says how to have one.
 */
export function splitCommand(text: string): SplitCommand {
  const scanner = new Scanner(text.trim());
  const problem = scanner.scan();
  if (problem !== undefined) return { outcome: 'invalid', problem };
  const assignments = scanner.words.map(({ text: word, isPlain }) =>
    isPlain ? ASSIGNMENT.exec(word)?.groups : undefined,
  );
  const first = assignments.indexOf(undefined);
  const words = first === -1 ? [] : scanner.words.slice(first);
  const env = Object.fromEntries(
    assignments
      .slice(0, Math.max(0, first))
      .map((found) => [found?.['name'] ?? '', found?.['value'] ?? '']),
  );
  if (words.length === 0 || words[0]?.text === '') {
    return { outcome: 'invalid', problem: 'is empty: it needs a command' };
  }
  return { outcome: 'words', env, words: words.map((word) => word.text) };
}

interface Word {
  readonly text: string;
  /** Whether it begins without a quote or a backslash: only such a word can set a variable. */
  readonly isPlain: boolean;
}

class Scanner {
  readonly words: Word[] = [];
  readonly #text: string;
  #at = 0;
  #word: { text: string; isPlain: boolean } | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  /** Fills `words`. @returns the first problem. */
  scan(): string | undefined {
    while (this.#at < this.#text.length) {
      const problem = this.#step();
      if (problem !== undefined) return problem;
    }
    this.#end();
    return undefined;
  }

  #step(): string | undefined {
    const rest = this.#text.slice(this.#at);
    const [char = ''] = /^./su.exec(rest) ?? [];
    if (/^[ \t]/u.test(rest)) {
      this.#end();
      this.#at += 1;
      return undefined;
    }
    if (char === "'" || char === '"') return this.#quoted(char);
    if (char === '\\') return this.#escaped(rest);
    if (OPERATOR.test(rest) || EXPANSION.test(rest)) return this.#needsShell(rest);
    this.#add(char, this.#word === undefined);
    this.#at += char.length;
    return undefined;
  }

  #quoted(quote: string): string | undefined {
    this.#add('', false);
    const from = this.#at;
    this.#at += 1;
    while (this.#at < this.#text.length) {
      const rest = this.#text.slice(this.#at);
      const [char = ''] = /^./su.exec(rest) ?? [];
      if (char === quote) {
        this.#at += 1;
        return undefined;
      }
      if (quote === '"' && EXPANSION.test(rest)) return this.#needsShell(rest);
      // Between double quotes a backslash stands before these alone.
      const escaped = quote === '"' ? /^\\([$`"\\])/u.exec(rest)?.[1] : undefined;
      this.#add(escaped ?? char, false);
      this.#at += escaped === undefined ? char.length : 2;
    }
    const place = String(from + 1);
    return `has a quote ${quote} at character ${place} that is not closed`;
  }

  #escaped(rest: string): string | undefined {
    const [, char] = /^\\(.)/su.exec(rest) ?? [];
    if (char === undefined) return 'ends with a backslash, and nothing follows it';
    this.#add(char, false);
    this.#at += 1 + char.length;
    return undefined;
  }

  #needsShell(rest: string): string {
    const [what = ''] = /^\$\{?\w+\}?|^\$\(|^&&|^\|\||^[^\w\s]/u.exec(rest) ?? [];
    const part = what === '' ? 'a second line' : what;
    return `needs a shell for ${part}, and none runs it: write ${this.#inShell()}`;
  }

  #inShell(): string {
    // `exec` makes the command the process that is told to stop; it takes one command alone.
    const isOne = !/[|&;()\n]/u.test(this.#text);
    const inner = `${isOne ? 'exec ' : ''}${this.#text}`;
    return `sh -c '${inner.replaceAll("'", String.raw`'\''`)}'`;
  }

  #add(text: string, isPlain: boolean): void {
    this.#word ??= { text: '', isPlain };
    this.#word.text += text;
  }

  #end(): void {
    if (this.#word !== undefined) this.words.push(this.#word);
    this.#word = undefined;
  }
}
