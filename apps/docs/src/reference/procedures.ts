/** Every procedure of the contract: who may call it, what it takes, what it answers and how it fails. */
import type { ErrorCode } from '@leasehold/keys-core';
import { type Description, type Operation, type Schema, typesIn, typeText } from './description.ts';
import { anchorOfCode, errorsOfProcedure, forwardingErrors } from './procedure-errors.ts';

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
