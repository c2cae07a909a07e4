/**
 * A program of this machine as a person names it, and as a drone runs it from any folder: what is
 * looked for in the PATH of a shell, and relative to a folder, becomes absolute.
 */
import { accessSync, constants, statSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { homedir } from 'node:os';
import path from 'node:path';
import { findCommand } from '../../run/find-command.ts';

/** The fields of a program in a drone's file that name files of this machine; others are left alone. */
export interface LocalProgram {
  readonly command: string;
  readonly args?: readonly string[] | undefined;
  readonly cwd?: string | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly [field: string]: unknown;
}

/** What is wrong with a field. */
export interface FieldProblem {
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
    ...{ cwd, env: { HOME: homedir(), ...env }, encoding: 'utf8', timeout: ANSWER_MS_MAX },
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
