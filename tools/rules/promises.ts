/**
 * Reads the promises of a document, and checks the tests that hold them. The tables of threats in `docs/security.md` are
 * marked in the same way.
 *
 * A promise has a mark, the comment `<!--name-->`, at its end. A mark covers what stands before it in its paragraph,
 * item or row, back to the mark before. `docs/promise-tests.json` has the tests of each mark, by their files. A file is
 * named by the end of its path: as much of it as no other file has.
 *
 * A table needs a mark in each row, or one at the end of the paragraph before it. A paragraph or a list that promises
 * nothing, because it explains or advises, stands after `<!-- no promise -->`.
 */
import type { TestTitles } from './test-titles.ts';

const NO_PROMISE = '<!-- no promise -->';
/** Every mark of a text. */
const MARK = /<!--(?<name>[\w-]+)-->/gu;
const HAS_MARK = new RegExp(MARK.source, 'u');
/** A text whose last sentence has a mark; more than one mark may be there. */
const ENDS_WITH_MARK = /<!--[\w-]+-->[.:]?$/u;
const ITEM = /^(?:[-*]|\d+\.) /u;

/** The titles of tests, by their files, for each mark. */
export type PromiseTests = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;

/** Promises of a document that have no mark. */
export function unmarkedPromises(document: string): string[] {
  return sectionsOf(document).flatMap(({ heading, lines }) =>
    unmarkedIn(blocksOf(lines)).map((problem) => `${heading}: ${problem}`),
  );
}

/** Rows of the tables of threats that have no mark. */
export function unmarkedThreats(document: string): string[] {
  const section = sectionsOf(document).find(({ heading }) => heading === 'Threats');
  const blocks = blocksOf(section?.lines ?? []);
  return blocks
    .filter(
      ({ kind, text }, index) => kind === 'row' && !isHead(blocks, index) && !HAS_MARK.test(text),
    )
    .map(({ text }) => text);
}

/** Marks without a single test, tests without a mark, and tests that do not exist. */
export function markProblems(
  documents: readonly string[],
  tests: PromiseTests,
  titles: TestTitles,
): string[] {
  const marks = documents.flatMap((document) => [...document.matchAll(MARK)]);
  const used = new Set(marks.map(({ groups }) => groups?.['name'] ?? ''));
  const known = Object.keys(tests);
  return [
    ...[...used].filter((name) => !known.includes(name)).map((name) => `${name} has no tests`),
    ...known.filter((name) => !used.has(name)).map((name) => `nothing has the mark ${name}`),
    ...Object.entries(tests).flatMap(([name, byFile]) =>
      citedProblems(byFile, titles).map((problem) => `${name}: ${problem}`),
    ),
  ];
}

/** The section of the promises in full, which the table of the README links to. */
const PROMISES_SECTION = 'The promises';

/** The titles of promises that only one has: the table of the README, or the full text. */
export function missingPromises(readme: string, document: string): string[] {
  const section = sectionsOf(document).find(({ heading }) => heading === PROMISES_SECTION);
  const told = titlesOf(/^\d+\. \*\*(?<title>[^*]+?)\.?\*\*/gmu, section?.lines.join('\n') ?? '');
  const listed = titlesOf(/^\| \*\*(?<title>[^*]+?)\.?\*\* +\|/gmu, readme);
  return [
    ...told.filter((title) => !listed.includes(title)),
    ...listed.filter((title) => !told.includes(title)),
  ];
}

function titlesOf(pattern: RegExp, text: string): string[] {
  return [...text.matchAll(pattern)].map(({ groups }) => groups?.['title'] ?? '');
}

/** The problems of what a mark names: no test at all, or tests that do not exist. */
function citedProblems(byFile: PromiseTests[string], titles: TestTitles): string[] {
  const files = Object.entries(byFile);
  if (files.length === 0) return ['names no test'];
  return files.flatMap(([file, cited]) => {
    if (cited.length === 0) return [`${file}: names no test`];
    const paths = [...titles.keys()].filter((path) => `/${path}`.endsWith(`/${file}`));
    const known = titles.get(paths[0] ?? '');
    if (known === undefined) return [`there is no file ${file}`];
    if (paths.length > 1) return [`there are several files ${file}: ${paths.join(', ')}`];
    return cited
      .filter((title) => !known.has(title))
      .map((title) => `${file} has no test "${title}"`);
  });
}

interface Section {
  readonly heading: string;
  readonly lines: readonly string[];
}

/** The parts below each second-level heading; subsections belong to their section. */
function sectionsOf(document: string): Section[] {
  return document
    .split(/^## /mu)
    .slice(1)
    .map((part) => {
      const [heading = '', ...lines] = part.split('\n');
      return { heading, lines };
    });
}

/** A paragraph, an item of a list, or a row of a table. */
interface Block {
  readonly text: string;
  readonly kind: 'text' | 'row';
  readonly isExempt: boolean;
}

function blocksOf(lines: readonly string[]): Block[] {
  const blocks: Block[] = [];
  let open: string[] = [];
  let isExempt = false;
  let isCode = false;
  const close = (): void => {
    const text = open.join(' ');
    open = [];
    if (text === '') return;
    if (text === NO_PROMISE) {
      isExempt = true;
      return;
    }
    const isItem = ITEM.test(text);
    // The next items of an exempt list are exempt too.
    isExempt &&= isItem || blocks.at(-1)?.isExempt !== true;
    blocks.push({ text, kind: 'text', isExempt });
    isExempt &&= isItem;
  };
  for (const line of lines) {
    const text = line.trim();
    if (text.startsWith('```')) {
      close();
      isCode = !isCode;
    } else if (isCode || text.startsWith('#')) close();
    else if (text.startsWith('|')) {
      close();
      blocks.push({ text, kind: 'row', isExempt: false });
    } else {
      if (text === '' || ITEM.test(text)) close();
      if (text !== '') open.push(text);
      if (text === NO_PROMISE) close();
    }
  }
  close();
  return blocks;
}

/** Paragraphs, items and tables without a mark at their end. */
function unmarkedIn(blocks: readonly Block[]): string[] {
  const problems: string[] = [];
  /** Whether the rows that follow are covered by the text before them. */
  let isCovered = false;
  for (const [index, { text, kind, isExempt }] of blocks.entries()) {
    if (kind === 'text') isCovered = ENDS_WITH_MARK.test(text);
    const isLeft =
      kind === 'row'
        ? isHead(blocks, index) || HAS_MARK.test(text)
        : isExempt || introduces(blocks, index);
    if (!isCovered && !isLeft) problems.push(`has no test: ${text}`);
  }
  return problems;
}

/** Whether a block leads to a list or a table, whose items need marks of their own. */
function introduces(blocks: readonly Block[], index: number): boolean {
  return blocks[index]?.text.endsWith(':') === true && blocks[index + 1] !== undefined;
}

/** The heads of a table's columns, and the line below them. */
function isHead(blocks: readonly Block[], index: number): boolean {
  const isLine = (at: number): boolean => /^\|[\s:|-]+\|$/u.test(blocks[at]?.text ?? '');
  return isLine(index) || isLine(index + 1);
}
