/**
 * The description of the API: see docs/http-api.md. Inputs are made from their schemas, answers from the types that the
 * compiler infers: a schema of each answer would be written twice. The file is checked in, because types are gone when a
 * controller runs, and because a change of the API can then be read in its review.
 */
import { ERROR_CODES } from '@leasehold/keys-core';
import { readTypes } from './answer-types.ts';
import { ERROR_EXAMPLE } from './examples.ts';
import { pathsOf } from './operations.ts';
import { TypeSchemas, type Schema } from './type-schemas.ts';

const DESCRIPTION = `Who holds this key right now, and for how long may they act as if they do?

A query is a GET with its input as JSON in the address, \`?input=…\`. A mutation is a POST with its input as the
body. Both answer \`{"result": {"data": …}}\`. A subscription is a GET that answers server-sent events. An
error has the body of the schema \`Error\`; \`error.data.leaseholdCode\` says which one it is.

The schemas say what JSON Schema can say. A controller checks more, such as lengths in bytes, and names the
field that is wrong. Inputs are strict: an unknown field is an error. Answers may get more fields in later
versions.`;

/** Describes the whole API. Reads the sources below `root` with the compiler. */
export function openApiOf(root: string, version: string): Schema {
  const typed = readTypes(root);
  const answers = new TypeSchemas(typed.checker);
  const paths = pathsOf(typed, answers);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Leasehold',
      version,
      description: DESCRIPTION,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/', description: 'The controller that serves this description.' }],
    tags: [...new Set(Object.keys(paths).map(groupOf))].map((name) => ({ name })),
    paths,
    components: {
      schemas: { Error: errorSchema(), ...answers.components },
      responses: { Error: errorResponse() },
      parameters: PARAMETERS,
      securitySchemes: SECURITY_SCHEMES,
    },
  };
}

function groupOf(path: string): string {
  return path.replace('/trpc/', '').split('.')[0] ?? '';
}

function errorSchema(): Schema {
  return {
    type: 'object',
    description:
      'What went wrong. Each code is explained in the documentation, under /docs/reference/errors of the console.',
    properties: {
      error: {
        type: 'object',
        properties: {
          message: { type: 'string', description: 'For people.' },
          code: { type: 'integer', description: 'The number that tRPC has for `data.code`.' },
          data: errorDataSchema(),
        },
        required: ['message', 'code', 'data'],
      },
    },
    required: ['error'],
  };
}

function errorDataSchema(): Schema {
  return {
    type: 'object',
    properties: {
      leaseholdCode: {
        type: 'string',
        enum: Object.keys(ERROR_CODES).toSorted(),
        description: 'Which error it is.',
      },
      code: { type: 'string', description: 'What tRPC calls an error with this status.' },
      httpStatus: { type: 'integer', description: 'The status of the answer.' },
      retryable: {
        type: 'boolean',
        description: 'Whether the same request may succeed if it is sent again.',
      },
      incidentId: {
        type: ['string', 'null'],
        description: "Is beside the cause in the controller's log.",
      },
      details: {
        type: 'object',
        description: 'More about it, such as `retryAfterMs`, or `problems` with each wrong field.',
      },
    },
    required: ['leaseholdCode', 'code', 'httpStatus', 'retryable', 'incidentId', 'details'],
  };
}

function errorResponse(): Schema {
  return {
    description: 'An error.',
    headers: {
      'Retry-After': {
        description: 'In seconds, with `details.retryAfterMs`.',
        schema: { type: 'integer' },
      },
    },
    content: {
      'application/json': {
        schema: { $ref: '#/components/schemas/Error' },
        example: ERROR_EXAMPLE,
      },
    },
  };
}

const PARAMETERS = {
  LastEventId: {
    name: 'Last-Event-ID',
    in: 'header',
    description: 'The id of the last event that arrived: the stream continues after it.',
    schema: { type: 'string' },
  },
  CsrfToken: {
    name: 'x-leasehold-csrf',
    in: 'header',
    description: 'Only with a session: the `csrfToken` of `session.get`.',
    schema: { type: 'string' },
  },
};

const SECURITY_SCHEMES = {
  token: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'lh_…',
    description: 'An API token. Its role, and the roles below that, decide what it may call.',
  },
  session: {
    type: 'apiKey',
    in: 'cookie',
    name: 'leasehold.session_token',
    description:
      'Somebody who signed in to the console. Behind https the name begins with `__Host-`.',
  },
};
