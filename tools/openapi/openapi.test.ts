import { readFile } from 'node:fs/promises';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { beforeAll, describe, expect, test } from 'vitest';
import { PROCEDURES } from '@leasehold/api';
import { EXAMPLES, ERROR_EXAMPLE } from './examples.ts';
import { openApiFile, openApiText } from './file.ts';
import { SUMMARIES } from './summaries.ts';

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly security: readonly Record<string, readonly string[]>[];
}

/** The compiler reads all sources of the API, on a machine that may be busy. */
const COMPILE_MS_MAX = 300_000;
const METHODS = { query: 'get', mutation: 'post', subscription: 'get' };

let text: string;
let document: { readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>> };
beforeAll(async () => {
  text = await readFile(openApiFile, 'utf8');
  document = JSON.parse(text) as typeof document;
});

describe('the description of the API', () => {
  test(
    'agrees with the contract and the types: else run `npm run docs:openapi`',
    async () => {
      expect(await openApiText()).toBe(text);
    },
    COMPILE_MS_MAX,
  );

  test('is valid OpenAPI 3.1', async () => {
    const validator = new Validator();

    // Parsed: the validator would read the text as YAML, which takes far longer.
    const parsed = JSON.parse(text) as Record<string, unknown>;
    const { valid, errors } = await validator.validate(parsed);

    expect({ valid, errors, version: validator.version }).toEqual({
      valid: true,
      errors: undefined,
      version: '3.1',
    });
  });

  test('has each procedure of the router with its role, and nothing else', () => {
    const described = Object.entries(document.paths).flatMap(([path, operations]) =>
      Object.entries(operations).map(([method, { operationId, security }]) => ({
        path,
        method,
        operationId,
        role: security[0]?.['token']?.[0],
      })),
    );
    const expected = [...PROCEDURES].map(([path, { type, meta }]) => ({
      path: `/trpc/${path}`,
      method: METHODS[type],
      operationId: path,
      role: meta?.role,
    }));

    const byPath = (a: { path: string }, b: { path: string }): number => (a.path < b.path ? -1 : 1);
    expect(described.toSorted(byPath)).toEqual(expected.toSorted(byPath));
    expect(Object.keys(SUMMARIES).toSorted()).toEqual([...PROCEDURES.keys()].toSorted());
  });

  test('its examples are what the contract accepts, and what the schemas of answers describe', () => {
    const ajv = new Ajv2020({ strict: false, validateSchema: false });
    addFormats.default(ajv);
    ajv.addSchema(JSON.parse(text) as object, 'api');
    const answerSchema = (path: string): string => {
      const method = METHODS[PROCEDURES.get(path)?.type ?? 'query'];
      return `api#/paths/~1trpc~1${path}/${method}/responses/200/content/application~1json/schema`;
    };
    const problems: unknown[] = [];
    const check = (what: string, schema: string, value: unknown): void => {
      if (!ajv.validate({ $ref: schema }, value)) problems.push({ what, errors: ajv.errors });
    };

    for (const [path, { input, answer }] of Object.entries(EXAMPLES)) {
      for (const schema of PROCEDURES.get(path)?.inputs ?? []) {
        const { error } = schema.safeParse(input);
        if (error !== undefined) problems.push({ what: path, errors: error.issues });
      }
      if (answer !== undefined) check(path, answerSchema(path), { result: { data: answer } });
    }
    check('an error', 'api#/components/schemas/Error', ERROR_EXAMPLE);

    expect(problems).toEqual([]);
  });
});
