/** The promises of `docs/lease-semantics.md` and the threats of `docs/security.md`, each with its tests. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { anchorOf } from '../markdown.ts';
import { ROOT } from '../root.ts';

/** The titles of tests, by their files. */
type Tests = Readonly<Record<string, readonly string[]>>;

const RULES = '/concepts/lease-semantics';
const SECURITY = '/operate/security';

export function promisesPage(): string {
  const file = readFileSync(path.join(ROOT, 'docs/promise-tests.json'), 'utf8');
  const tests = JSON.parse(file) as Readonly<Record<string, Tests>>;
  const sections = [
    ...sectionsOf('docs/lease-semantics.md', /^## /mu, RULES, tests),
    ...sectionsOf('docs/security.md', /^### /mu, SECURITY, tests),
  ];
  return `# Promises and their tests

Each promise of [the exact rules](${RULES}), and each threat of [Security](${SECURITY}), by its last words, with the tests
that hold it. Tests in files of the kind
\`.nightly.\` run every night, all others before each change.

${sections.join('\n')}`;
}

function sectionsOf(
  document: string,
  headings: RegExp,
  page: string,
  tests: Readonly<Record<string, Tests>>,
): string[] {
  const [, ...parts] = readFileSync(path.join(ROOT, document), 'utf8').split(headings);
  return parts.map((part) => {
    const [heading = ''] = part.split('\n');
    const rows = promisesIn(part).map(
      ({ text, name }) => `- ${text}\n${testLines(tests[name] ?? {})}`,
    );
    const title = heading.replaceAll('`', '');
    return `## [${title}](${page}#${anchorOf(heading)})\n\n${rows.join('\n')}\n`;
  });
}

/** What stands before each mark, back to the mark, the paragraph or the item before. */
function promisesIn(section: string): { text: string; name: string }[] {
  const blocks = section
    .replaceAll(/^(?:[-*]|\d+\.|\|) /gmu, '\n\n')
    .replaceAll(/\]\([^)]*\)/gu, ']')
    .split(/\n{2,}/u);
  return blocks.flatMap((block) =>
    [...block.replaceAll(/\s+/gu, ' ').matchAll(/(?<text>.*?)<!--(?<name>[\w-]+)-->/gu)].map(
      ({ groups }) => ({ text: lastWords(groups?.['text'] ?? ''), name: groups?.['name'] ?? '' }),
    ),
  );
}

/** The end of a long promise: a page of pages of text helps nobody. */
function lastWords(text: string): string {
  const plain = text
    .replaceAll(/[[\]*|`]/gu, ' ')
    .replaceAll(/\s+/gu, ' ')
    .trim();
  const words = plain
    .replaceAll('<', '&lt;')
    .replace(/^[.,:;] /u, '')
    .split(' ');
  return words.length > 40 ? `… ${words.slice(-36).join(' ')}` : words.join(' ');
}

function testLines(tests: Tests): string {
  return Object.entries(tests)
    .flatMap(([file, titles]) =>
      titles.length === 0
        ? [`  - \`${file}\``]
        : titles.map((title) => `  - \`${file}\`: ${quoted(title)}`),
    )
    .join('\n');
}

/** A title as code: it may hold anything. */
function quoted(title: string): string {
  return `\`\`"${title}"\`\``;
}
