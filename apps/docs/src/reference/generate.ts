/** Makes the pages of the reference. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { droneFileSchema, programKindsSchema, programsOf } from '@leasehold/api/drone-file';
import { COMMAND_ERROR_CODES, ERROR_CODES } from '@leasehold/keys-core';
import type { Command } from 'commander';
import { z } from 'zod';
import { createCli } from '../../../cli/src/cli.ts';
import { environmentSchema as ofCli } from '../../../cli/src/config.ts';
import { createProgram } from '../../../cli/src/program.ts';
import { environmentSchema as ofConsole } from '../../../console/src/server/config.ts';
import { environmentSchema as ofController } from '../../../controller/src/config.ts';
import { describedMetrics } from '../../../controller/src/metrics.ts';
import { environmentSchema as ofDrone } from '../../../drone/src/config.ts';
import { environmentSchema as ofGateway } from '../../../gateway/src/config.ts';
import { anchorOf, tablesOf, writtenText, linkedOnSite } from '../markdown.ts';
import { ROOT } from '../pages.ts';
import {
  type Description,
  readDescription,
  typesIn,
  typeText,
  type Schema,
} from './description.ts';
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
    ['reference/errors', errorsPage()],
    ['evidence/promises', promisesPage()],
    ['evidence/cases', casesPage()],
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

/** What the ids mean that titles of tests begin with. */
function casesPage(): string {
  const file = readFileSync(path.join(ROOT, 'docs/cases.json'), 'utf8');
  const kinds = JSON.parse(file) as Readonly<Record<string, Readonly<Record<string, string>>>>;
  const parts = Object.entries(kinds).map(([kind, cases]) => {
    const lines = Object.entries(cases).map(([id, meaning]) => `- ${id}: ${meaning}`);
    return `## ${kind}\n\n${lines.join('\n')}\n`;
  });
  return `# Cases, invariants and faults

Titles of tests begin with the id of what they show: “C20 a stale holder's release leaves the new holder intact”.

${parts.join('\n')}`;
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

/** Every code of an error, with its status or its exit code. */
export function errorsPage(): string {
  const ofCalls = Object.entries(ERROR_CODES).map(
    ([code, { http, retryable, text, doc }]) =>
      `## \`${code}\`\n\n${text} ${doc}\n\nStatus ${String(http)}, ${retryable ? 'retryable' : 'final'}.\n`,
  );
  const ofCommands = Object.entries(COMMAND_ERROR_CODES).map(([code, { text, doc, ...more }]) => {
    const exitCode = 'exitCode' in more ? more.exitCode : 1;
    return `### \`${code}\`\n\n${text} ${doc}\n\nExit code ${String(exitCode)}.\n`;
  });
  return `# Errors

${writtenText('docs/errors.md')}

${ofCalls.join('\n')}
## Of the command line

These come from this machine, and from no controller.

${ofCommands.join('\n')}`;
}

// Every command, with the help that it prints.

/** What a block of the site holds beside the outline. */
const HELP_WIDTH = 84;

/** A command by its whole name, with its help. */
interface Described {
  readonly name: string;
  readonly summary: string;
  readonly help: string;
}

/** The page, one section for each group. */
export function commandsPage(): string {
  const { program, printed } = wholeProgram();
  const groups = visibleIn(program).map((command) => {
    const own = helpOf(command, printed);
    const leaves = command.commands.length === 0 ? [] : leavesOf(command, printed);
    const texts = leaves.map(
      ({ name, summary, help }) => `### \`leasehold ${name}\`\n\n${summary}.\n\n${block(help)}`,
    );
    const head = `## \`leasehold ${command.name()}\`\n\n${command.description()}.`;
    return `${[head, block(own), ...texts].join('\n\n')}\n`;
  });
  return `# Commands

${writtenText('docs/reference/commands.md')}

## All commands

\`\`\`text
${helpOf(program, printed).trimEnd()}
\`\`\`

${groups.join('\n')}`;
}

function block(help: string): string {
  return `\`\`\`text\n${help.trimEnd()}\n\`\`\``;
}

/** Every command without commands of its own, by its whole name: `keys ls`. */
export function allCommands(): string[] {
  const { program, printed } = wholeProgram();
  return visibleIn(program)
    .flatMap((command) => leavesOf(command, printed))
    .map(({ name }) => name);
}

/** What is wrong with a command as it is typed, after `leasehold`; undefined when it and its options exist. */
export function commandProblem(words: readonly string[]): string | undefined {
  let command = wholeProgram().program;
  // A command takes the options of its groups too.
  const known = ['--help'];
  const rest = [...words];
  // A group by itself prints its help, or does something with its own options.
  while (command.commands.length > 0 && /^[^-]/u.test(rest[0] ?? '')) {
    const name = rest.shift() ?? '';
    const next = command.commands.find((one) => one.name() === name);
    if (next === undefined) return `there is no command \`${words.join(' ')}\``;
    command = next;
    known.push(...command.options.flatMap(({ long }) => long ?? []));
  }
  const end = rest.indexOf('--');
  const options = (end < 0 ? rest : rest.slice(0, end)).filter((word) => /^--\w/u.test(word));
  const unknown = options.find((option) => !known.includes(option.replace(/=.*/u, '')));
  return unknown === undefined ? undefined : `\`${words.join(' ')}\` has no option ${unknown}`;
}

function wholeProgram() {
  let text = '';
  const none = new AbortController().signal;
  const cli = createCli(
    {
      stdout: (more) => {
        text += more;
      },
      stderr: () => undefined,
      readStdin: () => Promise.resolve(''),
      askSecret: () => Promise.resolve(undefined),
      environment: {},
      isTerminal: false,
      signal: () => none,
      signalWhileRead: () => none,
      onSignal: () => undefined,
      wasAnswerLost: () => Promise.resolve(false),
    },
    [],
    false,
  );
  const printed = (print: () => void): string => {
    text = '';
    print();
    return text;
  };
  return { program: createProgram(cli), printed };
}

/** Without those that only Leasehold itself runs, and without `help`. */
function visibleIn(command: Command): Command[] {
  const shown = command.createHelp().visibleCommands(command);
  return command.commands.filter((child) => shown.includes(child));
}

function helpOf(command: Command, printed: (print: () => void) => string): string {
  command.configureHelp({ ...command.configureHelp(), helpWidth: HELP_WIDTH });
  return printed(() => {
    command.outputHelp();
  });
}

function leavesOf(command: Command, printed: (print: () => void) => string): Described[] {
  if (command.commands.length > 0) {
    return visibleIn(command).flatMap((child) =>
      leavesOf(child, printed).map((leaf) => ({ ...leaf, name: `${command.name()} ${leaf.name}` })),
    );
  }
  const help = helpOf(command, printed);
  return [{ name: command.name(), summary: command.description(), help }];
}

// Every variable of the environment, and the file of a drone. Which process reads a variable, its default and what it
// may be come from the schemas that check it; what it means is in the table of `docs/reference/configuration.md`,
// with whose text the page begins.

/** What the table of `docs/reference/configuration.md` says about variables. One row may be about several: `LEASEHOLD_ETCD_USER`, `_PASSWORD`. */
interface Documented {
  readonly name: string;
  /** All names of its row, as the table has them. */
  readonly title: string;
  readonly fallback: string | undefined;
  readonly meaning: string;
}

const CONFIGURATION = 'docs/reference/configuration.md';

const onSite = (text: string): string => linkedOnSite(text, CONFIGURATION);

/** By name. `known` are the whole names of variables: the table shortens some. */
function documentedVariables(known: readonly string[]): ReadonlyMap<string, Documented> {
  const text = readFileSync(path.join(ROOT, CONFIGURATION), 'utf8');
  const table = tablesOf(text).find(({ head }) => head[0] === 'variable');
  const found = new Map<string, Documented>();
  for (const [title = '', defaults = '', meaning = ''] of table?.rows ?? []) {
    const written = [...title.matchAll(/`(\w+)`/gu)].map(([, name = '']) => name);
    const names = written.map((name, nth) =>
      name.startsWith('_') ? wholeName(name, written.slice(0, nth), known) : name,
    );
    const each = defaults.split(', ');
    for (const [nth, name] of names.entries()) {
      // One default for all of a row, or one for each.
      const own = each.length === names.length ? each[nth] : defaults;
      found.set(name, { name, title, fallback: onSite(own ?? ''), meaning: onSite(meaning) });
    }
  }
  return found;
}

/** `_PASSWORD` after `LEASEHOLD_ETCD_USER`: the variable that has most of its beginning. */
function wholeName(ending: string, before: readonly string[], known: readonly string[]): string {
  const first = before.find((name) => !name.startsWith('_')) ?? '';
  const parts = first.split('_');
  for (let count = parts.length; count > 0; count -= 1) {
    const name = parts.slice(0, count).join('_') + ending;
    if (known.includes(name)) return name;
  }
  return parts.slice(0, -1).join('_') + ending;
}

const READERS: readonly { reader: string; variables: Readonly<Record<string, z.ZodType>> }[] = [
  { reader: 'controllers', variables: ofController.shape },
  { reader: 'the console', variables: ofConsole.shape },
  { reader: 'drones', variables: ofDrone.shape },
  { reader: 'gateways', variables: ofGateway.shape },
  { reader: 'the command line and `leasehold up`', variables: ofCli.shape },
];

/** No variable may be this. */
const NO_VALUE = '\u0001';

/** A variable with what the schemas and the table say about it. */
interface Variable {
  readonly name: string;
  readonly readers: readonly string[];
  readonly fallback: string;
  readonly allowed: string;
  readonly meaning: string;
}

export function configurationPage(): string {
  const known = variablesOfSchemas();
  const documented = documentedVariables([...known.keys()]);
  const inSchemas = [...known].map(([name, fields]) => variableOf(name, fields, documented));
  const others = [...documented.values()].filter(({ name }) => !known.has(name));
  const sections = inSchemas.sort((one, other) => (one.name < other.name ? -1 : 1)).map(sectionOf);
  return `# Configuration

${writtenText(CONFIGURATION).replace(/^\|.*\n/gmu, '')}

${sections.join('\n')}
${others.map(otherSection).join('\n')}
## The file of a drone

\`leasehold drone --config FILE\` reads it, as JSON. A field that it does not know is an error. What the fields mean is under
[Drones](/operate/drones).

\`\`\`ts
${droneFile()}
\`\`\`
`;
}

/** Variables of the schemas that the table does not have. */
export function undocumentedVariables(): string[] {
  const names = [...variablesOfSchemas().keys()];
  const documented = documentedVariables(names);
  return names.filter((name) => !documented.has(name));
}

function variablesOfSchemas(): Map<string, { reader: string; field: z.ZodType }[]> {
  const found = new Map<string, { reader: string; field: z.ZodType }[]>();
  for (const { reader, variables } of READERS) {
    for (const [name, field] of Object.entries(variables)) {
      found.set(name, [...(found.get(name) ?? []), { reader, field }]);
    }
  }
  return found;
}

function variableOf(
  name: string,
  fields: readonly { reader: string; field: z.ZodType }[],
  documented: ReadonlyMap<string, Documented>,
): Variable {
  const schemas = fields.map(({ field }) => field);
  const told = documented.get(name);
  return {
    name,
    readers: fields.map(({ reader }) => reader),
    fallback: told?.fallback ?? defaultOf(schemas) ?? 'none',
    allowed: schemas.map(allowedBy).find((text) => text !== undefined) ?? 'any text',
    meaning: told?.meaning ?? '',
  };
}

/** The first default among the processes that read it. */
function defaultOf(schemas: readonly z.ZodType[]): string | undefined {
  for (const schema of schemas) {
    const { success, data } = schema.safeParse(undefined);
    if (success && data !== undefined) return `\`${defaultText(data)}\``;
  }
  return undefined;
}

function defaultText(value: unknown): string {
  if (Array.isArray(value)) return value.join(',');
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** What the error about a wrong value says that it must be. */
function allowedBy(schema: z.ZodType): string | undefined {
  const message = schema.safeParse(NO_VALUE).error?.issues[0]?.message;
  if (message === undefined) return undefined;
  if (message.startsWith('cannot be read')) return 'the path of a PEM file';
  return message.replace(/^must (?:be |have )?/u, '');
}

function sectionOf({ name, readers, fallback, allowed, meaning }: Variable): string {
  return `## \`${name}\`

${sentence(meaning)}

| | |
| - | - |
| read by | ${readers.join(', ')} |
| default | ${fallback} |
| value | ${allowed.replaceAll('|', '\\|')} |
`;
}

function otherSection({ title, fallback, meaning }: Documented): string {
  return `## ${title}\n\n${sentence(meaning)}\n\n| | |\n| - | - |\n| default | ${fallback ?? 'none'} |\n`;
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function droneFile(): string {
  const kinds = droneFileSchema.extend({ programs: programsOf(programKindsSchema) });
  return typeText(z.toJSONSchema(kinds, { io: 'input', unrepresentable: 'any' }) as Schema);
}
