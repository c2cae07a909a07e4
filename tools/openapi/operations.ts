/** One operation of the description for each procedure. */
import { PROCEDURES, type DeclaredProcedure } from '@leasehold/api';
import { invariant, type Role } from '@leasehold/keys-core';
import type { z } from 'zod';
import type { TypedProcedures } from './answer-types.ts';
import { EXAMPLES } from './examples.ts';
import { inputSchemaOf } from './inputs.ts';
import { SUMMARIES } from './summaries.ts';
import type { Schema, TypeSchemas } from './type-schemas.ts';

/** Every error of the registry has this body, whatever its status is. */
const ERRORS = { default: { $ref: '#/components/responses/Error' } };

/** Calls with `Last-Event-ID`, as a browser sends it when it connects again. */
const RESUMED = 'events.watch';

/** The `paths` of the description. */
export function pathsOf(
  { procedures }: TypedProcedures,
  answers: TypeSchemas,
): Record<string, Schema> {
  const entries = [...PROCEDURES].map(([path, procedure]): [string, Schema] => {
    const typed = procedures.get(path);
    invariant(typed !== undefined, `the compiler found no procedure ${path}`);
    const method = procedure.type === 'mutation' ? 'post' : 'get';
    const answer = answers.of(typed.answer);
    const operation = operationOf(path, procedure, { answer, comment: typed.comment });
    return [`/trpc/${path}`, { [method]: operation }];
  });
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function operationOf(
  path: string,
  { type, meta, inputs }: DeclaredProcedure,
  { answer, comment }: { readonly answer: Schema; readonly comment: string },
): Schema {
  const [group = ''] = path.split('.');
  const role = meta?.role ?? 'admin';
  return {
    operationId: path,
    tags: [group],
    summary: summaryOf(path),
    description: [comment, `Needs the role \`${role}\`.`]
      .filter((text) => text !== '')
      .join('\n\n'),
    security: securityOf(role),
    ...givenTo(path, type, inputs[0]),
    responses: {
      200: type === 'subscription' ? streamOf(answer) : answerOf(answer, EXAMPLES[path]?.answer),
      ...ERRORS,
    },
  };
}

/** The input: the body of a mutation, and a parameter of all others. */
function givenTo(
  path: string,
  type: DeclaredProcedure['type'],
  input: z.ZodType | undefined,
): Schema {
  const given = input === undefined ? undefined : givenOf(path, input);
  if (type === 'mutation') {
    const parameters = [{ $ref: '#/components/parameters/CsrfToken' }];
    return given === undefined ? { parameters } : { parameters, requestBody: bodyOf(given) };
  }
  const parameters = [
    ...(given === undefined ? [] : [inputParameter(given)]),
    ...(path === RESUMED ? [{ $ref: '#/components/parameters/LastEventId' }] : []),
  ];
  return parameters.length > 0 ? { parameters } : {};
}

function givenOf(path: string, input: z.ZodType): Given {
  return {
    schema: inputSchemaOf(input),
    isOptional: input.safeParse(undefined).success,
    example: EXAMPLES[path]?.input,
  };
}

/** Drones and other datacenters have tokens only; people may come with a session too. */
function securityOf(role: Role): Schema[] {
  const isOfPeople = role !== 'drone' && role !== 'peer';
  return [{ token: [role] }, ...(isOfPeople ? [{ session: [role] }] : [])];
}

function summaryOf(path: string): string {
  const summary = SUMMARIES[path];
  invariant(summary !== undefined, `tools/openapi/summaries.ts has no line for ${path}`);
  return summary;
}

interface Given {
  readonly schema: Schema;
  readonly isOptional: boolean;
  readonly example: unknown;
}

function exampleOf(example: unknown): Schema {
  return example === undefined ? {} : { example };
}

function inputParameter({ schema, isOptional, example }: Given): Schema {
  return {
    name: 'input',
    in: 'query',
    required: !isOptional,
    description: 'JSON, encoded for an address.',
    content: { 'application/json': { schema, ...exampleOf(example) } },
  };
}

function bodyOf({ schema, isOptional, example }: Given): Schema {
  return {
    required: !isOptional,
    content: { 'application/json': { schema, ...exampleOf(example) } },
  };
}

function answerOf(answer: Schema, example: unknown): Schema {
  return {
    description: 'The answer.',
    content: {
      'application/json': {
        schema: envelopeOf(answer),
        ...exampleOf(example === undefined ? undefined : { result: { data: example } }),
      },
    },
  };
}

/** What surrounds the answer of a query or mutation. */
function envelopeOf(data: Schema): Schema {
  return {
    type: 'object',
    properties: {
      result: { type: 'object', properties: { data }, required: ['data'] },
    },
    required: ['result'],
  };
}

/** OpenAPI 3.1 has no words for the items of a stream: they are in a field of our own. */
function streamOf(event: Schema): Schema {
  return {
    description:
      'Server-sent events. The data of each is JSON, of the schema in `x-event-data`; the events `connected`, `ping`, `return` and `serialized-error` are of the stream itself.',
    content: { 'text/event-stream': { schema: { type: 'string' }, 'x-event-data': event } },
  };
}
