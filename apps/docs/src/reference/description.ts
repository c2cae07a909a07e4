/** The description of the API, as far as the reference reads it. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { ROOT } from '../pages.ts';

/** A schema of JSON Schema 2020-12, with what occurs in the description. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly description?: string;
  readonly pattern?: string;
  readonly format?: string;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
}

interface Content {
  readonly schema: Schema;
  readonly example?: unknown;
  readonly 'x-event-data'?: Schema;
}

/** How a procedure is called over HTTP. */
export interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description: string;
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters?: readonly {
    readonly name?: string;
    readonly content?: { readonly 'application/json': Content };
  }[];
  readonly requestBody?: { readonly content: { readonly 'application/json': Content } };
  readonly responses: {
    readonly 200: {
      readonly content: Readonly<
        Partial<Record<'application/json' | 'text/event-stream', Content>>
      >;
    };
  };
}

export interface Description {
  readonly info: { readonly description: string };
  readonly tags: readonly { readonly name: string }[];
  readonly paths: Readonly<Record<string, Readonly<Partial<Record<'get' | 'post', Operation>>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/** Reads the file that every controller serves. */
export function readDescription(): Description {
  const file = path.join(ROOT, 'libs/api/src/openapi/openapi.json');
  return JSON.parse(readFileSync(file, 'utf8')) as Description;
}

const INDENT = '  ';
/** A type that fits on a line of this many characters is not broken. */
const LINE_LENGTH = 76;

/** The type that a schema describes. */
export function typeText(schema: Schema, indent = ''): string {
  if (schema.$ref !== undefined) return nameOf(schema.$ref);
  if (schema.const !== undefined) return valueText(schema.const);
  const choices = choicesOf(schema);
  if (choices !== undefined) {
    const texts = choices.map((one) => typeText(one, indent));
    return union([...new Set(texts)], indent);
  }
  if (schema.type === 'array') return arrayText(schema, indent);
  if (schema.type === 'object' || schema.properties !== undefined) {
    return objectText(schema, indent);
  }
  const types = typeof schema.type === 'string' ? [schema.type] : (schema.type ?? ['unknown']);
  return types.map((type) => (type === 'integer' ? 'number' : type)).join(' | ');
}

/** What a value must fulfil beside its type, in words. */
function limitsOf(schema: Schema): string {
  const { maximum } = schema;
  // Descriptions of texts have their limits in bytes.
  const isSaid = schema.description?.includes('bytes') === true;
  const said = isSaid ? {} : { minLength: schema.minLength, maxLength: schema.maxLength };
  const least =
    said.minLength === 1 ? 'not empty' : limit('at least', said.minLength, 'characters');
  return [
    schema.default === undefined ? undefined : `default ${valueText(schema.default)}`,
    limit('at least', schema.minimum),
    limit('more than', schema.exclusiveMinimum),
    limit('at most', maximum === Number.MAX_SAFE_INTEGER ? undefined : maximum),
    least,
    limit('at most', said.maxLength, 'characters'),
    limit('at least', schema.minItems, 'items'),
    limit('at most', schema.maxItems, 'items'),
    schema.pattern === undefined ? undefined : `matches ${schema.pattern}`,
  ]
    .filter((text) => text !== undefined)
    .join(', ');
}

function limit(what: string, value: number | undefined, unit?: string): string | undefined {
  if (value === undefined) return undefined;
  return [what, String(value), unit].filter((part) => part !== undefined).join(' ');
}

/** The names of the types that a schema uses. */
export function typesIn(schema: unknown): string[] {
  if (typeof schema !== 'object' || schema === null) return [];
  return Object.entries(schema).flatMap(([key, value]: [string, unknown]) =>
    key === '$ref' && typeof value === 'string' ? [nameOf(value)] : typesIn(value),
  );
}

/** What a value may be one of, if the schema has several. A choice within a choice is one of them. */
function choicesOf(schema: Schema): readonly Schema[] | undefined {
  if (schema.enum !== undefined) return schema.enum.map((value) => ({ const: value }));
  const choices = schema.anyOf ?? schema.oneOf;
  return choices?.flatMap((one) => choicesOf(one) ?? [one]);
}

function nameOf(reference: string): string {
  return reference.split('/').at(-1) ?? '';
}

function valueText(value: unknown): string {
  return typeof value === 'string' ? `'${value}'` : JSON.stringify(value);
}

function union(parts: readonly string[], indent: string): string {
  const short = parts.join(' | ');
  if (!short.includes('\n') && short.length + indent.length <= LINE_LENGTH) return short;
  return parts.map((part) => `\n${indent}${INDENT}| ${part}`).join('');
}

function arrayText({ items }: Schema, indent: string): string {
  const item = typeText(items ?? {}, indent);
  return /[ |]/u.test(item) && !item.startsWith('{') ? `(${item})[]` : `${item}[]`;
}

function objectText(schema: Schema, indent: string): string {
  const { properties = {}, required = [], additionalProperties } = schema;
  const deeper = indent + INDENT;
  const fields = Object.entries(properties).map(([name, field]) => {
    const mark = required.includes(name) ? '' : '?';
    const written = /^\w+$/u.test(name) ? name : `'${name}'`;
    const type = typeText(field, deeper);
    const between = type.startsWith('\n') ? '' : ' ';
    return `${commentOf(field, deeper)}${deeper}${written}${mark}:${between}${type};`;
  });
  if (typeof additionalProperties === 'object') {
    fields.push(`${deeper}[name: string]: ${typeText(additionalProperties, deeper)};`);
  }
  return fields.length === 0 ? '{}' : `{\n${fields.join('\n')}\n${indent}}`;
}

function commentOf(field: Schema, indent: string): string {
  const said = [field.description, limitsOf(field)].filter(
    (text) => text !== undefined && text !== '',
  );
  if (said.length === 0) return '';
  const text = said.join(' ').replaceAll(/\s+/gu, ' ').replaceAll('*/', '* /');
  return `${indent}/** ${text.charAt(0).toUpperCase()}${text.slice(1)} */\n`;
}
