/** Every procedure of the contract: who may call it, what it takes, what it answers and how it fails. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type ErrorCode, ERROR_CODES } from '@leasehold/keys-core';
import ts from 'typescript';
import { ROOT } from '../pages.ts';
import { type Description, type Operation, type Schema, typesIn, typeText } from './description.ts';

// The codes that each procedure answers with, read from the sources: from the procedure through the functions of the
// API to the methods of services that it calls, and the `@throws` of each on the way.

/** What a procedure answers with, beside what every call does. */
interface ProcedureErrors {
  readonly codes: readonly ErrorCode[];
  /** Whether it may be carried out in another datacenter, and so fail as {@link forwardingErrors} says. */
  readonly isForwarded: boolean;
}

const API = 'libs/api/src';
/** Sends a call to another datacenter. */
const FORWARDING = 'sendOn';

interface Found {
  readonly codes: Set<string>;
  readonly seen: Set<ts.Node>;
  /** As `services[face][name]` has them. */
  readonly face: string;
  readonly name: string;
  isForwarded: boolean;
}

let api: Declarations | undefined;
/** The API comes first: of two functions with one name, its own is meant. */
function declared(): Declarations {
  return (api ??= declarationsIn([API, 'libs/keys-core/src']));
}

const known = new Map<string, ProcedureErrors>();

/** @param path of a procedure, as on the wire: `keys.get`. */
export function errorsOfProcedure(path: string): ProcedureErrors {
  const errors = known.get(path) ?? readErrors(path);
  known.set(path, errors);
  return errors;
}

function readErrors(path: string): ProcedureErrors {
  const [face = '', name = ''] = path.split('.');
  const found: Found = { codes: new Set(), seen: new Set(), face, name, isForwarded: false };
  walk(resolverOf(face, name), found);
  return { codes: inOrder(found.codes), isForwarded: found.isForwarded };
}

/** Of a call that is carried out in another datacenter. */
export function forwardingErrors(): readonly ErrorCode[] {
  return inOrder(new Set(codesOfMethod('datacenters', 'call')));
}

/** The expression that declares a procedure, in its router or in a function that the router spreads. */
function resolverOf(group: string, name: string): ts.Node {
  const router =
    declared().values.get(`${group}Router`) ?? declared().values.get(routerMaker(group));
  const found = router === undefined ? undefined : propertyIn(router, name);
  if (found === undefined) {
    throw new Error(`${group}.${name} is declared nowhere in ${API}/routers`);
  }
  return found;
}

function routerMaker(group: string): string {
  return `create${group.slice(0, 1).toUpperCase()}${group.slice(1)}Router`;
}

function propertyIn(root: ts.Node, name: string): ts.Node | undefined {
  let found: ts.Node | undefined;
  const visit = (node: ts.Node): void => {
    if (found !== undefined) return;
    if (ts.isPropertyAssignment(node) && node.name.getText() === name) found = node.initializer;
    else if (ts.isSpreadAssignment(node)) {
      const { expression } = node;
      const spread = ts.isCallExpression(expression) ? expression.expression : expression;
      const made = declared().values.get(spread.getText());
      found = made === undefined ? undefined : propertyIn(made, name);
    }
    // A procedure's own expression has objects too.
    if (!ts.isPropertyAssignment(node)) ts.forEachChild(node, visit);
  };
  visit(root);
  return found;
}

function walk(node: ts.Node, found: Found): void {
  if (found.seen.has(node)) return;
  found.seen.add(node);
  if (ts.isNewExpression(node) && node.expression.getText() === 'LeaseError') {
    const [code] = node.arguments ?? [];
    if (code !== undefined && ts.isStringLiteral(code)) found.codes.add(code.text);
  }
  if (ts.isCallExpression(node)) collectMethod(node.expression, found);
  if (ts.isIdentifier(node) && !isNameOnly(node)) enter(node, found);
  ts.forEachChild(node, (child) => {
    walk(child, found);
  });
}

/** Goes on in a function, or a value, of the API. */
function enter(node: ts.Identifier, found: Found): void {
  if (node.text === FORWARDING) {
    found.isForwarded = true;
    return;
  }
  const value = declaredAround(node) ?? declared().values.get(node.text);
  if (value === undefined || ts.isParameter(value) || ts.isBindingElement(value)) return;
  if (!value.getSourceFile().fileName.startsWith(API)) return;
  for (const code of codesIn(docOf(value))) found.codes.add(code);
  walk(value, found);
}

/** What a function around a name declares under it: a constant, or a parameter, whose value is not known. */
function declaredAround(node: ts.Identifier): ts.Node | undefined {
  for (let around: ts.Node = node.parent; !ts.isSourceFile(around); around = around.parent) {
    const names = ts.isFunctionLike(around)
      ? around.parameters.flatMap(({ name }) => namesIn(name))
      : ts.isBlock(around)
        ? around.statements
            .filter((statement) => ts.isVariableStatement(statement))
            .flatMap(({ declarationList }) => declarationList.declarations)
            .flatMap(({ name }) => namesIn(name))
        : [];
    const own = names.find(({ text }) => text === node.text);
    if (own !== undefined) return own.parent;
  }
  return undefined;
}

function namesIn(name: ts.BindingName): ts.Identifier[] {
  if (ts.isIdentifier(name)) return [name];
  return name.elements.flatMap((element) =>
    ts.isBindingElement(element) ? namesIn(element.name) : [],
  );
}

/** A property's name, which is no reference to what has the same name elsewhere. */
function isNameOnly(node: ts.Identifier): boolean {
  const { parent } = node;
  return (
    (ts.isPropertyAccessExpression(parent) && parent.name === node) ||
    (ts.isPropertyAssignment(parent) && parent.name === node) ||
    ts.isTypeNode(parent)
  );
}

/** `services.keys.get(…)`, `services[face].release(…)`, `reservations.resolve(…)`. */
function collectMethod(callee: ts.Expression, found: Found): void {
  const [service, method] = serviceCall(callee, found) ?? [];
  if (service === undefined || method === undefined) return;
  for (const code of codesOfMethod(service, method)) found.codes.add(code);
}

function serviceCall(callee: ts.Expression, found: Found): [string, string] | undefined {
  const method = memberOf(callee, found);
  if (method === undefined) return undefined;
  const { expression: owner } = method;
  const service = ts.isIdentifier(owner) ? owner.text : memberOf(owner, found)?.name;
  return service === undefined ? undefined : [service, method.name];
}

function memberOf(
  node: ts.Expression,
  found: Found,
): { expression: ts.Expression; name: string } | undefined {
  if (ts.isPropertyAccessExpression(node)) {
    return { expression: node.expression, name: node.name.text };
  }
  if (!ts.isElementAccessExpression(node)) return undefined;
  const { argumentExpression: argument, expression } = node;
  return { expression, name: argument.getText() === 'face' ? found.face : found.name };
}

/** The codes that the interface of a service names for a method, and for every method. */
function codesOfMethod(service: string, method: string): string[] {
  const field = declared()
    .interfaces.get('ApiServices')
    ?.members.find((member) => member.name?.getText() === service);
  if (field === undefined || !ts.isPropertySignature(field) || field.type === undefined) return [];
  return interfacesIn(field.type).flatMap((face) => {
    return codesOfMember(face, method);
  });
}

/** Its own, and those of the methods that its text refers to: "as {@link watch}". */
function codesOfMember(face: ts.InterfaceDeclaration, method: string): string[] {
  const member = face.members.find(({ name }) => name?.getText() === method);
  if (member === undefined) return [];
  const doc = docOf(member);
  const referred = [...doc.matchAll(/\bas \{@link (?:(\w+)\.)?(\w+)\}/gu)];
  return [
    ...codesIn(docOf(face)),
    ...codesIn(doc),
    ...referred.flatMap(([link, owner, other = '']) => {
      const named = owner === undefined ? face : declared().interfaces.get(owner);
      if (named === undefined) throw new Error(`${link} in ${face.name.text} names no interface`);
      return codesOfMember(named, other);
    }),
  ];
}

/** The interfaces that a type names, also through aliases: `Omit<KeyService, 'connect'>`. */
function interfacesIn(type: ts.TypeNode): ts.InterfaceDeclaration[] {
  const found: ts.InterfaceDeclaration[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isTypeReferenceNode(node)) {
      const name = node.typeName.getText();
      const face = declared().interfaces.get(name);
      const alias = declared().aliases.get(name);
      if (face !== undefined) found.push(face);
      else if (alias !== undefined) visit(alias.type);
    }
    ts.forEachChild(node, visit);
  };
  visit(type);
  return found;
}

/** The codes that a comment says are thrown. */
function codesIn(doc: string): string[] {
  const from = doc.search(/@throws|may throw/u);
  if (from === -1) return [];
  return [...doc.slice(from).matchAll(/`([a-z]+\.[a-z_]+)`/gu)].map(([, code = '']) => code);
}

function inOrder(codes: ReadonlySet<string>): ErrorCode[] {
  const unknown = [...codes].filter((code) => !Object.hasOwn(ERROR_CODES, code));
  if (unknown.length > 0) {
    throw new Error(`a @throws names ${unknown.join(', ')}, which is no code`);
  }
  // The registry's own keys.
  return (Object.keys(ERROR_CODES) as ErrorCode[]).filter((code) => codes.has(code));
}

/** What our sources declare, by name. They are read as text: nothing is compiled. */
interface Declarations {
  /** Functions and constants outside of functions. */
  readonly values: ReadonlyMap<string, ts.FunctionDeclaration | ts.VariableDeclaration>;
  readonly interfaces: ReadonlyMap<string, ts.InterfaceDeclaration>;
  readonly aliases: ReadonlyMap<string, ts.TypeAliasDeclaration>;
}

/** Of all files below some folders, tests left out. Of a name that is declared twice the first stays. */
function declarationsIn(folders: readonly string[]): Declarations {
  const values = new Map<string, ts.FunctionDeclaration | ts.VariableDeclaration>();
  const interfaces = new Map<string, ts.InterfaceDeclaration>();
  const aliases = new Map<string, ts.TypeAliasDeclaration>();
  const add = (statement: ts.Statement): void => {
    if (ts.isFunctionDeclaration(statement)) note(values, statement.name?.text ?? '', statement);
    else if (ts.isInterfaceDeclaration(statement)) {
      note(interfaces, statement.name.text, statement);
    } else if (ts.isTypeAliasDeclaration(statement)) note(aliases, statement.name.text, statement);
    else if (ts.isVariableStatement(statement)) {
      for (const value of statement.declarationList.declarations) {
        note(values, value.name.getText(), value);
      }
    }
  };
  for (const file of folders.flatMap(filesBelow)) {
    const text = readFileSync(path.join(ROOT, file), 'utf8');
    ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true).statements.forEach(add);
  }
  return { values, interfaces, aliases };
}

/** The sources below a folder of the repository, tests left out. */
export function filesBelow(folder: string): string[] {
  return readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !/\.test\.ts$|(?:^|\/)testing\//u.test(file))
    .map((file) => path.posix.join(folder, file));
}

/** The comment above a declaration. */
function docOf(node: ts.Node): string {
  const owner = ts.isVariableDeclaration(node) ? node.parent.parent : node;
  return ts
    .getJSDocCommentsAndTags(owner)
    .map((comment) => comment.getText())
    .join('\n');
}

function note<Value>(map: Map<string, Value>, name: string, value: Value): void {
  if (!map.has(name)) map.set(name, value);
}

/** The section of a code on the page of errors, as an address has it. */
function anchorOfCode(code: string): string {
  return code.replaceAll('.', '');
}

const GROUP_TEXTS: Readonly<Record<string, string>> = {
  audit: 'What operators did outside of leases.',
  backends: 'The processes that run for keys.',
  bulk: 'One action on many keys or leases.',
  datacenters: 'The datacenters of an installation.',
  drones: 'The machines that run backends.',
  environments: 'Leases for deployments, with the action that they are for.',
  events: 'What happened to keys, leases and environments.',
  gateway: 'The way of browsers to keys: tokens of people, and what gateways ask.',
  settings: 'The configuration of a controller.',
  webhook: 'The address that is told of alarms and of chosen entries of the audit.',
  refusals: 'Connects and acquires that were refused.',
  holdOff: 'The time after a restore in which nothing new is granted.',
  keys: 'Single-instance backends, by key.',
  leases: 'Leases of services.',
  peer: 'What controllers of different datacenters ask each other. `peer.carryOut` also answers with the codes of the procedure that it carries out.',
  people: 'Who may sign in to the console.',
  reservations: 'Which datacenter a key lives in.',
  search: 'Anything by a part of its name.',
  session: 'The caller itself.',
  stats: 'Counts for the overview.',
  tokens: 'API tokens.',
};

/** Areas of codes that any call may fail with; of `request` a procedure also names its own. */
const OF_EVERY_CALL = ['request', 'quota', 'auth', 'controller', 'store', 'internal'];
/** Of the start of a process, and of no call. */
const OF_NO_CALL = ['client', 'config'];
/** What the client libraries make of an answer, and an act inside an answer of many; see each under Errors. */
const OF_NO_PROCEDURE: readonly ErrorCode[] = [
  'bulk.unsupported',
  'environment.vetoed',
  'lease.held',
  'lease.in_hook',
  'lease.lost',
  'lease.not_found',
  'lease.not_held',
  'lease.self_deadlock',
  'lease.unconfirmed',
  'lease.wait_timeout',
];

/** The page, one section for each group. */
export function proceduresPage({ paths, tags }: Description): string {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    (['get', 'post'] as const).flatMap((method) => {
      const operation = methods[method];
      return operation === undefined ? [] : [{ path, method, operation }];
    }),
  );
  const groups = tags.map(({ name }) => {
    const own = operations.filter(({ operation }) => operation.tags.includes(name));
    const texts = own.map(({ path, method, operation }) => sectionOf(path, method, operation));
    return `## ${name}\n\n${GROUP_TEXTS[name] ?? ''}\n\n${texts.join('\n')}`;
  });
  return `# Procedures

All that a controller answers. [The HTTP API](/libraries/http-api) explains how a procedure is called from any language,
and [the client library](/libraries/client) does it for TypeScript. Every controller serves the same as OpenAPI 3.1 at
\`/openapi.json\`.

A query is a \`GET\` with its input as JSON in \`?input=…\`. A mutation is a \`POST\` with its input as the body. A
subscription is a \`GET\` that answers server-sent events. Types with a name are on [their own page](/reference/types).

## Errors of every call

Every call may fail with a code that begins with ${OF_EVERY_CALL.map((area) => `\`${area}.\``).join(', ')}. Each
procedure below lists what else it may answer with, and those of \`request.\` that its caller should expect. Each code is
explained under [Errors](/reference/errors).

## Errors of another datacenter

A call that another datacenter carries out fails with its own codes, or with
${linksTo(forwardingErrors())}.

${groups.join('\n')}`;
}

/** Whether a code need not be at a procedure: it may come from any call, or comes from none. */
export function isNamedElsewhere(code: string): boolean {
  const isOfNone = OF_NO_PROCEDURE.some((known) => known === code);
  return isOfNone || [...OF_EVERY_CALL, ...OF_NO_CALL].includes(areaOf(code));
}

/** Groups of the description that have no text here. */
export function groupsWithoutText({ tags }: Description): string[] {
  return tags.map(({ name }) => name).filter((name) => GROUP_TEXTS[name] === undefined);
}

function areaOf(code: string): string {
  return code.split('.')[0] ?? '';
}

function errorsOf(id: string): string {
  const { codes, isForwarded } = errorsOfProcedure(id);
  const own = codes.filter(
    (code) => areaOf(code) === 'request' || !OF_EVERY_CALL.includes(areaOf(code)),
  );
  const elsewhere = isForwarded
    ? ['[those of another datacenter](#errors-of-another-datacenter)']
    : [];
  const all = [...own.map(linkTo), ...elsewhere];
  return `**Errors**: ${all.length === 0 ? '' : `${all.join(', ')}, and `}[those of every call](#errors-of-every-call).`;
}

function linksTo(codes: readonly ErrorCode[]): string {
  return codes.map(linkTo).join(', ');
}

function linkTo(code: ErrorCode): string {
  return `[\`${code}\`](/reference/errors#${anchorOfCode(code)})`;
}

function sectionOf(path: string, method: string, operation: Operation): string {
  const { operationId, summary, description, security } = operation;
  const [details = ''] = description.split(/(?:^|\n\n)Needs the role/u);
  const role = Object.values(security?.[0] ?? {})[0]?.[0];
  const facts = [
    `\`${method.toUpperCase()} ${path}\``,
    role === undefined ? 'needs no role' : `needs the role \`${role}\``,
  ];
  const input = inputOf(operation);
  const answer = answerOf(operation);
  return [
    `### \`${operationId}\``,
    `${summary}.${details === '' ? '' : ` ${details}`}`,
    `${facts.join(', ')}.`,
    ...(input === undefined ? ['It takes no input.'] : ['**Input**', code(input)]),
    ...(answer === undefined ? [] : [`**${answer.title}**`, code(answer.schema)]),
    typeLinks([input, answer?.schema]),
    errorsOf(operationId),
    '',
  ].join('\n\n');
}

function inputOf({ parameters = [], requestBody }: Operation): Schema | undefined {
  const asked = parameters.find(({ name }) => name === 'input')?.content;
  return (requestBody?.content ?? asked)?.['application/json'].schema;
}

function answerOf({ responses }: Operation): { title: string; schema: Schema } | undefined {
  const { 'application/json': json, 'text/event-stream': stream } = responses[200].content;
  const event = stream?.['x-event-data'];
  if (event !== undefined) return { title: 'Each event', schema: event };
  const data = json?.schema.properties?.['result']?.properties?.['data'];
  return data === undefined ? undefined : { title: 'Answer', schema: data };
}

function code(schema: Schema): string {
  return `\`\`\`ts\n${typeText(schema).trim()}\n\`\`\``;
}

function typeLinks(schemas: readonly (Schema | undefined)[]): string {
  const names = [...new Set(schemas.flatMap(typesIn))].sort();
  if (names.length === 0) return '';
  return `Types: ${names.map((name) => `[${name}](/reference/types#${name.toLowerCase()})`).join(', ')}.`;
}
