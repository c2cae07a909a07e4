/** Makes the pages of the reference. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describedMetrics } from '../../../controller/src/metrics.ts';
import { anchorOf, tablesOf } from '../markdown.ts';
import { ROOT } from '../pages.ts';
import { commandsPage } from './commands.ts';
import { configurationPage } from './configuration.ts';
import { type Description, readDescription, typesIn, typeText } from './description.ts';
import { proceduresPage } from './procedures.ts';

/** The text of each page, by its address. */
export function referencePages(): ReadonlyMap<string, string> {
  const description = readDescription();
  return new Map([
    ['reference/procedures', proceduresPage(description)],
    ['reference/types', typesPage(description)],
    ['reference/configuration', configurationPage()],
    ['reference/commands', commandsPage()],
    ['reference/metrics', metricsPage()],
    ['evidence/promises', promisesPage()],
  ]);
}

/** The titles of tests, by their files. */
type Tests = Readonly<Record<string, readonly string[]>>;

const RULES = '/concepts/lease-semantics';
const SECURITY = '/operate/security';

/** The promises of `docs/lease-semantics.md` and the threats of `docs/security.md`, each with its tests. */
function promisesPage(): string {
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

/** The types with names that answers and inputs use. */
export function typesPage({ components }: Description): string {
  const sections = Object.entries(components.schemas)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, schema]) => {
      const uses = [...new Set(typesIn(schema))].filter((used) => used !== name).sort();
      const links = uses.map((used) => `[${used}](#${used.toLowerCase()})`).join(', ');
      return [
        `## ${name}`,
        ...(schema.description === undefined ? [] : [schema.description]),
        `\`\`\`ts\n${typeText(schema).trim()}\n\`\`\``,
        ...(links === '' ? [] : [`Types: ${links}.`]),
        '',
      ].join('\n\n');
    });
  return `# Types

The types with names that [procedures](/reference/procedures) take and answer. Answers may get more fields in later
versions.

${sections.join('\n')}`;
}

/** Every metric that a controller exports, with its labels and what the runbook says about when to worry. */
export function metricsPage(): string {
  const worries = worryTexts();
  const rows = describedMetrics().map(({ name, type, help, labels }) => {
    const label = labels.map((one) => `\`${one}\``).join(', ');
    const worry = (worries.get(name) ?? []).join('; ');
    return `## \`${name}\`

${help}

| | |
| - | - |
| kind | ${type} |
| labels | ${label === '' ? 'none' : label} |
${worry === '' ? '' : `| worry when | ${worry} |\n`}`;
  });
  return `# Metrics

What each controller serves at \`/metrics\`, for tokens of the role \`viewer\` that are not limited to namespaces, beside the
metrics of its Node process. Histograms have \`_bucket\`, \`_sum\` and \`_count\`. [Observability](/operate/observability) has
alerts and a dashboard over them.

${rows.join('\n')}`;
}

/** By metric. The runbook names some of them with a label. */
function worryTexts(): Map<string, string[]> {
  const runbook = readFileSync(path.join(ROOT, 'docs/runbook.md'), 'utf8');
  const texts = new Map<string, string[]>();
  const table = tablesOf(runbook).find(({ head }) => head[0] === 'metric');
  for (const [metric = '', worry = ''] of table?.rows ?? []) {
    const [, name = '', label = ''] = /`(\w+)(\{[^}]*\})?`/u.exec(metric) ?? [];
    const text = label === '' ? worry : `\`${label.slice(1, -1)}\`: ${worry}`;
    texts.set(name, [...(texts.get(name) ?? []), unlinked(text)]);
  }
  return texts;
}

/** Its links are relative to the runbook. */
function unlinked(text: string): string {
  return text.replaceAll(/\[([^\]]*)\]\([^)]*\)/gu, '$1');
}
