/**
 * Reads the promises of a document, and the tests that hold them.
 *
 * A promise has a note, `[^name]`, at its end. A note covers what stands before it in its paragraph, item or row,
 * back to the note before. The tests of the notes of a section follow at its end:
 *
 *     [^name]: `file.test.ts` "title of a test", "another"; `folder/other.test.ts` "title"
 *
 * A file is named by the end of its path: as much of it as no other file has. A note that no test of the gate holds
 * ends with `(npm run test:all)`.
 *
 * A table needs a note in each row, or one at the end of the paragraph before it. A paragraph or a list that
 * promises nothing, because it explains or advises, stands after `<!-- no promise -->`.
 */
import type { TestTitles } from './test-titles.ts';

const NO_PROMISE = '<!-- no promise -->';
/** Every note of a text. */
const NOTE = /\[\^(?<name>[\w-]+)\]/gu;
const HAS_NOTE = new RegExp(NOTE.source, 'u');
/** A text whose last sentence has a note; more than one note may be there. */
const ENDS_WITH_NOTE = /\[\^[\w-]+\][.:]?$/u;
const ITEM = /^(?:[-*]|\d+\.) /u;
const DEFINITION = /^\[\^(?<name>[\w-]+)\]: (?<tests>.*)$/u;
/** At the end of a note whose tests are all in files of `*.nightly.*`. */
const NOT_IN_GATE = ' (npm run test:all)';
/** One file and its tests. */
const FILE_TESTS = /^`(?<file>[\w./-]+)` (?<titles>".*")$/u;

/** Why a document does not name the tests of its promises; empty if it does. */
export function promiseProblems(document: string, titles: TestTitles): string[] {
  return sectionsOf(document).flatMap(({ heading, lines }) => {
    const blocks = blocksOf(lines);
    return [...unnoted(blocks), ...noteProblems(blocks, titles)].map(
      (problem) => `${heading}: ${problem}`,
    );
  });
}

/** How many notes a document has. */
export function noteCount(document: string): number {
  return document.match(/^\[\^[\w-]+\]:/gmu)?.length ?? 0;
}

/** The heads of the README's promises, and of the table of their tests. */
const README_SECTION = 'What it promises, and what it does not';
const TABLE_SECTION = 'The promises of the README';
/** The number of a promise, and the beginning of one of its sentences. */
const TABLE_ROW = /^\| (?<number>\d+) +\| (?<beginning>.+?) … +\|/gmu;

/** The sentences of the README's promises that the table of their tests does not have, and the reverse. */
export function missingSentences(readme: string, document: string): string[] {
  const sentences = textOf(readme, README_SECTION)
    .split(/^(?=\d+\. )/mu)
    .slice(1)
    .flatMap(sentencesOf);
  const rows = [...textOf(document, TABLE_SECTION).matchAll(TABLE_ROW)].map(
    ({ groups }) => `${groups?.['number'] ?? ''} ${groups?.['beginning'] ?? ''}`,
  );
  return [
    ...sentences.filter((sentence) => !rows.some((row) => sentence.startsWith(row))),
    ...rows.filter((row) => !sentences.some((sentence) => sentence.startsWith(row))),
  ];
}

function textOf(document: string, heading: string): string {
  const section = sectionsOf(document).find((one) => one.heading === heading);
  return section?.lines.join('\n') ?? '';
}

/** Each sentence of a numbered promise after its title, behind its number. */
function sentencesOf(item: string): string[] {
  const text = item.split(/\n\n/u)[0]?.replaceAll(/\s+/gu, ' ') ?? '';
  const [, number = '', rest = ''] = /^(\d+)\. (?:\*\*[^*]+\.\*\* )?(.*)$/u.exec(text) ?? [];
  return rest
    .replaceAll('**', '')
    .split(/(?<=\.) (?=[A-Z[`])/u)
    .map((sentence) => `${number} ${sentence}`);
}

/** The tests that a text names, which do not exist, or which are not in its form. */
export function citedProblems(text: string, titles: TestTitles): string[] {
  return text.split(/; (?=`)/u).flatMap((part) => {
    const groups = FILE_TESTS.exec(part)?.groups;
    if (groups === undefined) return [`is not of the form \`file\` "title", "title": ${part}`];
    const { file = '', titles: quoted = '' } = groups;
    const paths = [...titles.keys()].filter((path) => `/${path}`.endsWith(`/${file}`));
    const known = titles.get(paths[0] ?? '');
    if (known === undefined) return [`there is no file ${file}`];
    if (paths.length > 1) return [`there are several files ${file}: ${paths.join(', ')}`];
    return quoted
      .slice(1, -1)
      .split('", "')
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

/** A paragraph, an item of a list, a row of a table, or a definition of a note. */
interface Block {
  readonly text: string;
  readonly kind: 'text' | 'row' | 'definition';
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
    blocks.push({ text, kind: DEFINITION.test(text) ? 'definition' : 'text', isExempt });
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
      if (text === '' || ITEM.test(text) || DEFINITION.test(text)) close();
      if (text !== '') open.push(text);
      if (text === NO_PROMISE) close();
    }
  }
  close();
  return blocks;
}

/** Paragraphs, items and tables without a note at their end. */
function unnoted(blocks: readonly Block[]): string[] {
  const problems: string[] = [];
  /** Whether the rows that follow are covered by the text before them. */
  let isCovered = false;
  for (const [index, { text, kind, isExempt }] of blocks.entries()) {
    if (kind === 'definition') continue;
    if (kind === 'text') isCovered = ENDS_WITH_NOTE.test(text);
    const isLeft =
      kind === 'row'
        ? isHead(blocks, index) || HAS_NOTE.test(text)
        : isExempt || introduces(blocks, index);
    if (!isCovered && !isLeft) problems.push(`has no test: ${text}`);
  }
  return problems;
}

/** Whether a block leads to a list or a table, whose items need notes of their own. */
function introduces(blocks: readonly Block[], index: number): boolean {
  const next = blocks[index + 1];
  return (
    blocks[index]?.text.endsWith(':') === true && next !== undefined && next.kind !== 'definition'
  );
}

/** The heads of a table's columns, and the line below them. */
function isHead(blocks: readonly Block[], index: number): boolean {
  const isLine = (at: number): boolean => /^\|[\s:|-]+\|$/u.test(blocks[at]?.text ?? '');
  return isLine(index) || isLine(index + 1);
}

function noteProblems(blocks: readonly Block[], titles: TestTitles): string[] {
  const used = blocks
    .filter(({ kind }) => kind !== 'definition')
    .flatMap(({ text }) => [...text.matchAll(NOTE)].map(({ groups }) => groups?.['name'] ?? ''));
  const definitions = blocks
    .filter(({ kind }) => kind === 'definition')
    .map(({ text }) => DEFINITION.exec(text)?.groups ?? {});
  const defined = definitions.map(({ name = '' }) => name);
  return [
    ...used.filter((name) => !defined.includes(name)).map((name) => `[^${name}] has no tests`),
    ...defined.filter((name) => !used.includes(name)).map((name) => `nothing has [^${name}]`),
    ...defined
      .filter((name, index) => defined.indexOf(name) !== index)
      .map((name) => `[^${name}] is there twice`),
    ...definitions.flatMap(({ name = '', tests = '' }) =>
      [...citedProblems(tests.replace(NOT_IN_GATE, ''), titles), ...suiteProblems(tests)].map(
        (problem) => `[^${name}] ${problem}`,
      ),
    ),
  ];
}

function suiteProblems(tests: string): string[] {
  const files = [...tests.matchAll(/`(?<file>[\w./-]+\.ts)`/gu)].map(
    ({ groups }) => groups?.['file'],
  );
  const isInGate = files.some((file) => file?.includes('.nightly.') === false);
  if (isInGate === !tests.endsWith(NOT_IN_GATE)) return [];
  return [
    isInGate
      ? `has a test in the gate, and ends with${NOT_IN_GATE}`
      : `has no test in the gate: end it with${NOT_IN_GATE}`,
  ];
}
