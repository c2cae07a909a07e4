import { readFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';
import { expect, test } from 'vitest';
import { ROOT } from './source-files.ts';

const document = readFileSync(path.join(ROOT, 'docs', 'walkthroughs.md'), 'utf8');

const TITLES = ['Follow a connect', 'Follow a renewal', 'Follow a waiting acquire'];
const STEPS_MIN = 8;
const STEPS_MAX = 14;

/** A connect is short: from its procedure to the statement that starts the backend. */
const CONNECT = { title: 'Follow a connect', from: 'keysRouter.connect', to: 'spawn' };
const CONNECT_STEPS_MAX = 9;

/** Which files run in which process. A statement runs in PostgreSQL, whichever process sends it. */
const RUNS_IN: Record<string, RegExp> = {
  client: /^libs\/client\/src\//u,
  controller: /^(?:apps\/controller|libs\/api|libs\/keys-core)\/src\/(?!.*\bsql\/)/u,
  PostgreSQL: /^(?:libs\/keys-core\/src\/.*\bsql|prisma\/migrations)\//u,
  agent: /^(?:apps\/drone\/src\/agent|libs\/keys-core\/src\/holder)\//u,
  warden: /^apps\/drone\/src\/warden\//u,
};

/** "1. [`file`](../file) `function` (process): What happens there." */
const STEP =
  /^(?<number>\d+)\. \[`(?<file>[^`]+)`\]\(\.\.\/(?<link>[^)]+)\) `(?<name>[^`]+)` \((?<process>\w+)\): \S/u;

interface List {
  readonly title: string;
  /** Each item with its lines joined. */
  readonly items: readonly string[];
}

function listsOf(text: string): List[] {
  return text
    .split(/^## /mu)
    .slice(1)
    .map((section) => {
      const [title = '', ...lines] = section.split('\n');
      const items: string[] = [];
      for (const line of lines) {
        if (/^\d/u.test(line)) items.push(line);
        else if (/^ {2,}\S/u.test(line)) items.push(`${items.pop() ?? ''} ${line.trim()}`);
      }
      return { title, items };
    });
}

function problemsOf(text: string): string[] {
  const lists = listsOf(text);
  const titles = lists.map(({ title }) => title);
  const missing = TITLES.filter((title) => !titles.includes(title));
  return [
    ...missing.map((title) => `there is no list "${title}"`),
    ...lists.flatMap(({ title, items }) =>
      [...listProblems(items), ...(title === CONNECT.title ? connectProblems(items) : [])].map(
        (problem) => `${title}: ${problem}`,
      ),
    ),
  ];
}

function connectProblems(items: readonly string[]): string[] {
  const names = items.map((item) => STEP.exec(item)?.groups?.['name']);
  const [from, to] = [names.indexOf(CONNECT.from), names.indexOf(CONNECT.to)];
  const count = to - from + 1;
  if (from >= 0 && to >= from && count <= CONNECT_STEPS_MAX) return [];
  return [`has ${String(count)} steps from ${CONNECT.from} to ${CONNECT.to}`];
}

function listProblems(items: readonly string[]): string[] {
  const problems = items.flatMap((item, index) => stepProblems(item, index + 1));
  if (items.length < STEPS_MIN || items.length > STEPS_MAX) {
    problems.push(`has ${String(items.length)} steps`);
  }
  return problems;
}

function stepProblems(item: string, number: number): string[] {
  const groups = STEP.exec(item)?.groups;
  if (groups === undefined) return [`step ${String(number)} has not the form of a step: ${item}`];
  const { file = '', link = '', name = '', process = '' } = groups;
  const problems = [
    groups['number'] !== String(number) && `has the number ${String(groups['number'])}`,
    link !== file && `links to ${link} instead of ${file}`,
    RUNS_IN[process]?.test(file) !== true && `${file} does not run in "${process}"`,
    !declares(file, name) && `${file} does not declare ${name}`,
  ];
  return problems.filter((problem) => problem !== false).map((p) => `step ${String(number)}: ${p}`);
}

/** What each file declares, read once. */
const declared = new Map<string, ReadonlySet<string>>();

function declares(file: string, name: string): boolean {
  const names = declared.get(file) ?? namesIn(file);
  declared.set(file, names);
  return names.has(name);
}

/** All names that a file declares, also as `Outer.inner`; none when there is no such file. */
function namesIn(file: string): ReadonlySet<string> {
  const text = ts.sys.readFile(path.join(ROOT, file)) ?? '';
  if (file.endsWith('.sql')) {
    return new Set([...text.matchAll(/^create function (\w+)\(/gmu)].map(([, name = '']) => name));
  }
  const names = new Set<string>();
  const visit = (node: ts.Node, outers: readonly string[]): void => {
    const name = nameOf(node);
    if (name !== undefined) {
      names.add(name);
      for (const outer of outers) names.add(`${outer}.${name}`);
    }
    const within = name === undefined ? outers : [...outers, name];
    ts.forEachChild(node, (child) => {
      visit(child, within);
    });
  };
  visit(ts.createSourceFile(file, text, ts.ScriptTarget.Latest), []);
  return names;
}

/** The name of a function, a class, a member with a body, or a constant. */
function nameOf(node: ts.Node): string | undefined {
  const isNamed =
    ts.isFunctionDeclaration(node) ||
    ts.isClassDeclaration(node) ||
    ts.isMethodDeclaration(node) ||
    ts.isGetAccessor(node) ||
    ((ts.isVariableDeclaration(node) ||
      ts.isPropertyAssignment(node) ||
      ts.isPropertyDeclaration(node)) &&
      node.initializer !== undefined);
  if (!isNamed || node.name === undefined) return undefined;
  return ts.isIdentifier(node.name) || ts.isPrivateIdentifier(node.name)
    ? node.name.text
    : undefined;
}

test('every step of docs/walkthroughs.md names a function that exists, and the process where it runs', () => {
  expect(problemsOf(document)).toEqual([]);
});

test.each([
  ['an empty list', /^\d.*\n(?: .*\n)*/gmu, '', 'has 0 steps'],
  ['a list that is missing', '## Follow a renewal', '## Renewals', 'there is no list "Follow a re'],
  ['a step out of order', /^2\. /mu, '3. ', 'step 2: has the number 3'],
  [
    'a step in another form',
    '`createKeys.connect` (client)',
    '`createKeys.connect`',
    'has not the',
  ],
  [
    'a file that is gone',
    /keys\/connect\.ts/gu,
    'keys/gone.ts',
    'does not declare OneConnect.#look',
  ],
  [
    'a link elsewhere',
    '(../libs/client/src/keys.ts)',
    '(../libs/keys.ts)',
    'links to libs/keys.ts',
  ],
  ['a function that is renamed', '`spawn` (', '`spawnBackend` (', 'does not declare spawnBackend'],
  ['a method of another class', 'Warden.start', 'Leash.start', 'does not declare Leash.start'],
  ['a function that is only called', 'Warden.start', 'values', 'does not declare values'],
  [
    'an SQL function that is renamed',
    'lease_unexpired',
    'lease_over',
    'does not declare lease_over',
  ],
  [
    'a connect with more than nine steps to the start of its backend',
    /^5\. .*\n(?: .*\n)*/mu,
    '$&$&$&$&',
    'has 10 steps from keysRouter.connect to spawn',
  ],
  ['another process', '(warden)', '(agent)', 'warden/warden.ts does not run in "agent"'],
])('%s is found', (_case, part, replacement, problem) => {
  expect(problemsOf(document.replace(part, replacement)).join('\n')).toContain(problem);
});
