import { readFile } from 'node:fs/promises';
import path from 'node:path';
import ts from 'typescript';
import { beforeAll, describe, expect, test } from 'vitest';
import { codeFiles, filesBelow, ROOT } from './source-files.ts';

const GLOSSARY = 'docs/glossary.md';
/** Words and phrases that comments, texts and documents do not use, each with what to write instead. */
const WORDS = 'tools/rules/forbidden-words.json';
const CODE = ['.ts', '.tsx', '.mjs'];
/** Between two words of a phrase: spaces, or the end of a line of a comment or a quotation. */
const BETWEEN_WORDS = String.raw`\s+(?:(?:\*|//|/\*\*|>|#+)\s+)?`;
const NOT_WORDS = new RegExp(BETWEEN_WORDS, 'gu');
/** What stands for a character that is not prose; no word contains it. */
const BLANK = '\u0001';

/** The words and phrases, in small letters, with what to write instead. */
let replacements: ReadonlyMap<string, string>;
let forbidden: RegExp;

beforeAll(async () => {
  replacements = replacementsIn(await readFile(path.join(ROOT, WORDS), 'utf8'));
  forbidden = patternOf([...replacements.keys()]);
});

function replacementsIn(text: string): Map<string, string> {
  const rows = Object.entries(JSON.parse(text) as Record<string, string>);
  return new Map(
    rows.flatMap(([words, instead]) => words.split(', ').map((word) => [word, instead] as const)),
  );
}

function patternOf(words: readonly string[]): RegExp {
  const phrases = words.map((word) => word.split(' ').join(BETWEEN_WORDS));
  return new RegExp(String.raw`(?<![\w-])(?:${phrases.join('|')})(?![\w-])`, 'giu');
}

/** The text of a file with names in code blanked; every other character stays where it is. */
function proseOf(file: string, text: string): string {
  if (!file.endsWith('.md')) return withoutNames(file, text);
  return text
    .replaceAll(/(?<=^```tsx?\n).*?(?=^```$)/gmsu, (code) => withoutNames('block.ts', code))
    .replaceAll(/`[^`\n]+`/gu, blank);
}

function withoutNames(file: string, text: string): string {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest);
  let prose = text;
  const visit = (node: ts.Node): void => {
    const start = node.getStart(source);
    const isPath = ts.isImportDeclaration(node) || ts.isExportDeclaration(node);
    if (isPath || ts.isIdentifier(node) || ts.isPrivateIdentifier(node)) {
      prose = prose.slice(0, start) + blank(text.slice(start, node.end)) + prose.slice(node.end);
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  // In comments too, a single name between backticks is a name. A template is a text.
  return prose.replaceAll(/`[\w#.()-]+`/gu, blank);
}

function blank(text: string): string {
  return text.replaceAll(/[^\n]/gu, BLANK);
}

/** `file:line: word: write "…"` for each forbidden word of a text. */
function findWords(file: string, text: string): string[] {
  // Most files contain none, and need not be parsed.
  if (text.search(forbidden) < 0) return [];
  const prose = proseOf(file, text);
  return [...prose.matchAll(forbidden)].map(({ 0: word, index }) => {
    const line = prose.slice(0, index).split('\n').length;
    const found = word.replaceAll(NOT_WORDS, ' ');
    const instead = replacements.get(found.toLowerCase()) ?? '';
    return `${file}:${String(line)}: ${found}: write ${instead}`;
  });
}

describe('a forbidden word', () => {
  test('is found with its replacement in comments, in texts and in documents, in any case and over two lines', () => {
    expect(findWords('a.ts', '// It starts\n// Anew here.')).toEqual([
      'a.ts:2: Anew: write again; "starts over"; "refresh"',
    ]);
    expect(findWords('a.ts', "const text = 'told as lost';")).toEqual([
      'a.ts:1: told as: write reported as',
    ]);
    expect(findWords('a.ts', 'const text = `${id} lies in it`;')).toEqual([
      'a.ts:1: lies in: write is in, are in',
    ]);
    expect(findWords('a.tsx', 'const a = <p>But for me</p>;')).toEqual([
      'a.tsx:1: But for: write except for',
    ]);
    expect(findWords('a.ts', '/**\n * It is for\n * good.\n */\nf();')).toEqual([
      'a.ts:2: for good: write permanently, finally',
    ]);
    expect(findWords('a.md', 'One\nsays\nso.\n')).toEqual([
      'a.md:2: says so: write reports it, records it, shows it',
    ]);
    expect(findWords('a.md', '```ts\nf(); // upon\n```\n')).toEqual([
      'a.md:2: upon: write on, when',
    ]);
  });

  test('is not found in names, in paths of imports and as a part of a word', () => {
    expect(findWords('a.ts', "import { hear } from './hear.ts';\nhear(anew.upon);")).toEqual([]);
    expect(findWords('a.ts', '// Calls `hear`, then unhearable, last-anew.')).toEqual([]);
    expect(findWords('a.md', 'Use `anew`.\n\n```ts\nasync hear(): Promise<void>;\n```\n')).toEqual(
      [],
    );
  });
});

test('no document, comment or text contains a word of tools/rules/forbidden-words.json', async () => {
  const documents = filesBelow('.', ['.md']);
  const code = codeFiles(CODE);
  const files = [...documents, ...code].filter((file) => file !== 'tools/rules/glossary.test.ts');

  const found = await Promise.all(
    files.map(async (file) => findWords(file, await readFile(path.join(ROOT, file), 'utf8'))),
  );

  expect(documents.length).toBeGreaterThan(40);
  expect(code.length).toBeGreaterThan(1_000);
  expect(found.flat()).toEqual([]);
});

test('the glossary is in alphabetical order', async () => {
  const terms = await readFile(path.join(ROOT, GLOSSARY), 'utf8');
  const names = [...terms.matchAll(/^- \*\*(?<term>[^*]+)\*\*: /gmu)].map(({ groups }) =>
    groups?.['term']?.toLowerCase(),
  );

  expect(names.length).toBeGreaterThan(40);
  expect(names).toEqual([...names].sort());
});
