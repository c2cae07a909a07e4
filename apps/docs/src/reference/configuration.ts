/**
 * Every variable of the environment, and the file of a drone. Which process reads a variable, its default and what it
 * may be come from the schemas that check it; what it means is in the table of
 * `docs/reference/configuration.md`, with whose text the page begins.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { droneFileSchema, programKindsSchema, programsOf } from '@leasehold/api/drone-file';
import { environmentSchema as ofCli } from '../../../cli/src/config.ts';
import { environmentSchema as ofConsole } from '../../../console/src/server/config.ts';
import { environmentSchema as ofController } from '../../../controller/src/config.ts';
import { environmentSchema as ofDrone } from '../../../drone/src/config.ts';
import { environmentSchema as ofGateway } from '../../../gateway/src/config.ts';
import { ROOT } from '../pages.ts';
import { type Schema, typeText } from './description.ts';
import { linkedOnSite, tablesOf, writtenText } from '../markdown.ts';

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
