/** Schemas as people read them: in the notation of TypeScript. */
import type { Schema } from './description.ts';

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
export function limitsOf(schema: Schema): string {
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
