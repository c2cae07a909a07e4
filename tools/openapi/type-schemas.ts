/**
 * JSON Schemas of types. Types of Leasehold that have a name become components with that name; all others
 * are written where they are used.
 */
import ts from 'typescript';
import { invariant } from '@leasehold/keys-core';
import { commentOf } from './answer-types.ts';

export type Schema = Record<string, unknown>;

/** Types of tRPC that stand for what they carry. */
const WRAPPERS = new Set(['AsyncIterable', 'AsyncGenerator', 'TrackedData', 'Promise']);
/** Where types are declared whose names a caller should know. */
const OWN_SOURCE = /\/(?:libs|apps)\/[^/]+\/src\//u;

const PLAIN = [
  [ts.TypeFlags.StringLike, 'string'],
  [ts.TypeFlags.NumberLike, 'number'],
  [ts.TypeFlags.BooleanLike, 'boolean'],
] as const;

export class TypeSchemas {
  readonly #checker: ts.TypeChecker;
  readonly #components = new Map<string, { readonly type: ts.Type; schema: Schema }>();

  constructor(checker: ts.TypeChecker) {
    this.#checker = checker;
  }

  /** The components that the schemas refer to, by name. */
  get components(): Record<string, Schema> {
    const sorted = [...this.#components].toSorted(([a], [b]) => (a < b ? -1 : 1));
    return Object.fromEntries(sorted.map(([name, { schema }]) => [name, schema]));
  }

  /** @throws {LeaseError} `internal.error` for a type that no JSON can have. */
  of(type: ts.Type): Schema {
    const carried = this.#carriedBy(type);
    if (carried !== undefined) return this.of(carried);
    const name = this.#nameOf(type);
    if (name === undefined) return this.#written(type);
    const known = this.#components.get(name);
    invariant(known === undefined || known.type === type, `two types of answers are named ${name}`);
    if (known === undefined) {
      const component = { type, schema: {} };
      // Before its schema: a type may contain itself.
      this.#components.set(name, component);
      component.schema = {
        ...this.#described(type.aliasSymbol ?? type.symbol),
        ...this.#written(type),
      };
    }
    return { $ref: `#/components/schemas/${name}` };
  }

  #carriedBy(type: ts.Type): ts.Type | undefined {
    const name = (type.aliasSymbol ?? type.getSymbol())?.name ?? '';
    if (!WRAPPERS.has(name)) return undefined;
    return (type.aliasTypeArguments ?? this.#checker.getTypeArguments(type as ts.TypeReference))[0];
  }

  /** `PageOfKeyView` for `Page<KeyView>`; undefined for what has no name of ours. */
  #nameOf(type: ts.Type): string | undefined {
    if (!isStructure(type)) return undefined;
    const symbol = type.aliasSymbol ?? type.getSymbol();
    const isOurs = symbol?.declarations?.some(
      (declaration) =>
        (ts.isTypeAliasDeclaration(declaration) || ts.isInterfaceDeclaration(declaration)) &&
        OWN_SOURCE.test(declaration.getSourceFile().fileName),
    );
    if (symbol === undefined || isOurs !== true) return undefined;
    const given =
      type.aliasSymbol === undefined
        ? this.#checker.getTypeArguments(type as ts.TypeReference)
        : type.aliasTypeArguments;
    const parts = (given ?? [])
      .filter((argument) => argument.symbol !== type.symbol)
      .map((argument) => this.#nameOf(argument));
    if (parts.includes(undefined)) return undefined;
    return [symbol.name, ...parts].join('Of');
  }

  #written(type: ts.Type): Schema {
    const plain = this.#plain(type);
    if (plain !== undefined) return plain;
    if (type.isUnion()) return this.#union(type);
    if (this.#checker.isTupleType(type)) return this.#tuple(type as ts.TypeReference);
    if (this.#checker.isArrayType(type)) {
      const [item] = this.#checker.getTypeArguments(type as ts.TypeReference);
      return { type: 'array', items: item === undefined ? {} : this.of(item) };
    }
    const isObject = isStructure(type) && type.getCallSignatures().length === 0;
    invariant(isObject, `no JSON has the type ${this.#checker.typeToString(type)}`);
    return this.#object(type);
  }

  /** Of a type without parts. */
  #plain(type: ts.Type): Schema | undefined {
    const { flags } = type;
    if (flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown)) return {};
    if (flags & ts.TypeFlags.Null) return { type: 'null' };
    if (type.isStringLiteral() || type.isNumberLiteral()) return { const: type.value };
    if (flags & ts.TypeFlags.BooleanLiteral) {
      return { const: this.#checker.typeToString(type) === 'true' };
    }
    const named = PLAIN.find(([flag]) => (flags & flag) !== 0);
    return named === undefined ? undefined : { type: named[1] };
  }

  #tuple(type: ts.TypeReference): Schema {
    const items = this.#checker.getTypeArguments(type).map((item) => this.of(item));
    return { type: 'array', prefixItems: items, minItems: items.length, maxItems: items.length };
  }

  #union(type: ts.UnionType): Schema {
    const members = type.types.filter(({ flags }) => !(flags & ts.TypeFlags.Undefined));
    const texts = members.filter((member) => member.isStringLiteral());
    const booleans = members.filter(({ flags }) => flags & ts.TypeFlags.BooleanLiteral);
    const isBoolean = booleans.length === 2;
    const others = members.filter(
      (member) => !member.isStringLiteral() && !(isBoolean && booleans.includes(member)),
    );
    // In an order that does not depend on what the compiler has read before.
    const schemas = others
      .map((member) => this.of(member))
      .toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
    if (isBoolean) schemas.push({ type: 'boolean' });
    if (texts.length === 1) schemas.push({ const: texts[0]?.value });
    if (texts.length > 1) {
      schemas.push({ type: 'string', enum: texts.map(({ value }) => value).toSorted() });
    }
    const [only] = schemas;
    return schemas.length === 1 && only !== undefined ? only : anyOf(schemas);
  }

  /** An intersection is one object with the properties of all of its parts. */
  #object(type: ts.Type): Schema {
    const properties: Record<string, Schema> = {};
    const required: string[] = [];
    for (const property of this.#checker.getPropertiesOfType(type)) {
      const propertyType = this.#checker.getTypeOfSymbol(property);
      properties[property.name] = { ...this.of(propertyType), ...this.#described(property) };
      const isOptional = (property.flags & ts.SymbolFlags.Optional) !== 0;
      if (!isOptional && !mayBeLeftOut(propertyType)) required.push(property.name);
    }
    const [index] = this.#checker.getIndexInfosOfType(type);
    return {
      type: 'object',
      ...(Object.keys(properties).length > 0 ? { properties } : {}),
      ...(required.length > 0 ? { required } : {}),
      ...(index === undefined ? {} : { additionalProperties: this.of(index.type) }),
    };
  }

  #described(symbol: ts.Symbol | undefined): Schema {
    const description = symbol === undefined ? '' : commentOf(symbol, this.#checker);
    return description === '' ? {} : { description };
  }
}

/** JSON leaves out what is undefined, and what is unknown may be that. */
function mayBeLeftOut(type: ts.Type): boolean {
  const flags = ts.TypeFlags.Any | ts.TypeFlags.Unknown | ts.TypeFlags.Undefined;
  const members = type.isUnion() ? type.types : [type];
  return members.some((member) => (member.flags & flags) !== 0);
}

/** Plain types, such as a text or null, need no list of schemas. */
function anyOf(schemas: readonly Schema[]): Schema {
  const isPlain = schemas.every((schema) => Object.keys(schema).join() === 'type');
  return isPlain ? { type: schemas.map(({ type }) => type) } : { anyOf: schemas };
}

function isStructure({ flags }: ts.Type): boolean {
  return (flags & (ts.TypeFlags.Object | ts.TypeFlags.Union | ts.TypeFlags.Intersection)) !== 0;
}
