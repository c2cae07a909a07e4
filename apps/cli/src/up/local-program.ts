/**
 * A program of this machine as a person names it, and as a drone runs it from any folder: what is
 * looked for in the PATH of a shell, and relative to a folder, becomes absolute.
 */
import { spawnSync } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import path from 'node:path';
import { findCommand, ownHome } from '../processes.ts';

/** The fields of a program in a drone's file that name files of this machine; others are left alone. */
export interface LocalProgram {
  readonly command: string;
  readonly args?: readonly string[] | undefined;
  readonly cwd?: string | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly [field: string]: unknown;
}

/** What is wrong with a field. */
interface FieldProblem {
  readonly field: 'command' | 'cwd';
  readonly problem: string;
}

export interface LocalPlace {
  /** What relative paths start from. */
  readonly folder: string;
  /** The PATH of the shell. The program gets it too, unless it has one of its own. */
  readonly searchPath: string;
}

/** Programs that run the file that is named after their options. */
const INTERPRETER =
  /^(?:node|bun|deno|tsx|ts-node|python[\d.]*|ruby|perl|php|lua|bash|dash|zsh|sh|java)$/u;
const SCRIPT = /\.(?:[cm]?[jt]sx?|py|rb|pl|php|lua|sh|jar)$/u;

/** The program with absolute paths, and everything that keeps it from being started. */
export function locate(
  program: LocalProgram,
  { folder, searchPath }: LocalPlace,
): { readonly program: LocalProgram; readonly problems: readonly FieldProblem[] } {
  const cwd = path.resolve(folder, program.cwd ?? '.');
  if (!isFolder(cwd)) {
    const problem = `${cwd} ${isThere(cwd) ? 'is not a folder' : 'does not exist'}`;
    return { program, problems: [{ field: 'cwd', problem }] };
  }
  const folders = [cwd, path.resolve(folder)];
  const args = (program.args ?? []).map((word) => located(word, folders));
  const env = { PATH: searchPath, ...program.env };
  const found = commandOf(program.command, { folders, searchPath: env.PATH });
  const problem = found.problem ?? scriptProblem({ command: program.command, args, cwd });
  const real = problem === undefined ? interpreterOf(found.command, { cwd, env }) : undefined;
  const command = real?.command ?? found.command;
  const reads = program['reads'] === undefined && real !== undefined ? { reads: real.reads } : {};
  return {
    program: { ...program, command, args, cwd, env, ...reads },
    problems: problem === undefined ? [] : [{ field: 'command', problem }],
  };
}

/** The files whose change changes what a program does: its scripts, or else its own file. */
export function scriptsOf({ command, args = [], cwd }: LocalProgram): string[] {
  const files = args
    .filter((word) => SCRIPT.test(word) && !word.startsWith('-'))
    .map((word) => path.resolve(cwd ?? '.', word))
    .filter(isFile);
  if (files.length > 0) return files;
  return INTERPRETER.test(path.basename(command)) || isOfSystem(command) ? [] : [command];
}

/** A program as a person would type it. */
export function commandText({ command, args = [] }: LocalProgram): string {
  const words = [path.basename(command), ...args];
  return words.map((word) => (/[\s"']|^$/u.test(word) ? JSON.stringify(word) : word)).join(' ');
}

function commandOf(
  command: string,
  { folders, searchPath }: { folders: readonly string[]; searchPath: string },
): { readonly command: string; readonly problem?: string } {
  if (command.includes('/')) {
    const files = folders.map((folder) => path.resolve(folder, command));
    const [first = command] = files;
    const there = files.find(isThere);
    if (there === undefined) return { command, problem: `${first} does not exist` };
    const { outcome } = findCommand(there, '');
    if (outcome === 'found') return { command: there };
    const why = isFile(there) ? 'may not be executed: `chmod +x` it' : 'is not a file';
    return { command, problem: `${there} ${why}` };
  }
  const found = findCommand(command, searchPath);
  if (found.outcome === 'found') return { command: path.resolve(found.path) };
  const here = folders.map((folder) => path.join(folder, command)).find(isFile);
  const hint = here === undefined ? '' : `; for the file ${here} write ${remedyOf(command, here)}`;
  return { command, problem: `there is no command ${command} in PATH${hint}` };
}

/** How an interpreter tells where it is, and then the folders of its libraries, a line for each. */
const QUESTIONS: readonly (readonly [RegExp, readonly string[]])[] = [
  [
    /^python[\d.]*$/u,
    ['-c', 'import sys; print(sys.executable, sys.prefix, sys.base_prefix, sep="\\n")'],
  ],
  [/^ruby$/u, ['-e', 'puts RbConfig.ruby, RbConfig::CONFIG["prefix"]']],
  [/^node$/u, ['-p', 'process.execPath']],
];
const ANSWER_MS_MAX = 10_000;

/**
 * The real file of an interpreter in a person's own folder, where version managers put a script of their own, and
 * what it reads: a drone that runs as root shows a program nothing else of such a folder.
 */
function interpreterOf(
  command: string,
  { cwd, env }: { cwd: string; env: Readonly<Record<string, string>> },
): { readonly command: string; readonly reads: readonly string[] } | undefined {
  const name = path.basename(command);
  const [, question] = QUESTIONS.find(([names]) => names.test(name)) ?? [];
  if (question === undefined || /^\/(?:usr|bin|sbin|opt|nix)\//u.test(command)) return undefined;
  const { status, stdout } = spawnSync(command, question, {
    cwd,
    env: { ...ownHome(), ...env },
    encoding: 'utf8',
    timeout: ANSWER_MS_MAX,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [file = '', ...folders] = status === 0 ? stdout.trim().split('\n') : [];
  if (!isFile(file)) return undefined;
  return { command: file, reads: [...new Set(folders)].filter((folder) => isFolder(folder)) };
}

function remedyOf(command: string, file: string): string {
  if (isExecutable(file)) return `./${command}`;
  const interpreter = /\.[cm]?js$/u.test(command)
    ? 'node'
    : command.endsWith('.py')
      ? 'python3'
      : '';
  return interpreter === '' ? `./${command}, after \`chmod +x\`` : `${interpreter} ${command}`;
}

/** A word that names a file outside of the program's folder: its absolute path. Any other stays. */
function located(word: string, [cwd = '', folder = '']: readonly string[]): string {
  if (word === '' || word.startsWith('-') || path.isAbsolute(word)) return word;
  const inside = path.resolve(cwd, word);
  if (isFile(inside)) return word.startsWith('..') ? inside : word;
  const beside = path.resolve(folder, word);
  return isFile(beside) ? beside : word;
}

/** The script of an interpreter is its first argument that is no option. */
function scriptProblem(of: {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
}): string | undefined {
  if (!INTERPRETER.test(path.basename(of.command))) return undefined;
  const script = of.args.find((word) => !word.startsWith('-'));
  if (script === undefined || !SCRIPT.test(script) || /\s/u.test(script)) return undefined;
  const file = path.resolve(of.cwd, script);
  return isThere(file) ? undefined : `${file} does not exist`;
}

/** What a package manager has installed does not change while one works. */
function isOfSystem(command: string): boolean {
  return /^\/(?:usr|bin|sbin|opt|nix)\/|\/node_modules\/|\/\.?(?:nvm|volta|asdf|pyenv|rbenv)\//u.test(
    command,
  );
}

function isThere(file: string): boolean {
  return statOf(file) !== undefined;
}

function isFile(file: string): boolean {
  return statOf(file)?.isFile() === true;
}

function isFolder(file: string): boolean {
  return statOf(file)?.isDirectory() === true;
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function statOf(file: string) {
  try {
    return statSync(file, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/** The words of a command line, or what is wrong with it. */
type SplitCommand =
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
