import { readOpenApi } from '@leasehold/api/openapi';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

type Json = Readonly<Record<string, unknown>>;

/** The description of the API, to check what a controller really answers. */
export interface DescribedApi {
  /** What is wrong with a body by the schema at this place of the description; undefined if nothing is. */
  problemOf(place: string, body: unknown): string | undefined;
  /** The place of the schema of an answer. */
  answerOf(path: string, method: 'get' | 'post'): string;
  /** The place of the schema of what each event of a stream carries. */
  eventOf(path: string): string;
  /** The place of the schema of an input, if the procedure takes one. */
  inputOf(path: string, method: 'get' | 'post'): string;
}

export const ERROR_PLACE = '/components/schemas/Error';

/** Reads the description. An answer with a field that is not described is a problem too. */
export async function describedApi(): Promise<DescribedApi> {
  const ajv = new Ajv2020({ strict: false, validateSchema: false, allErrors: true });
  addFormats.default(ajv);
  ajv.addSchema(closed(JSON.parse(await readOpenApi())) as Json, 'api');
  const operation = (path: string, method: string): string => `/paths/~1trpc~1${path}/${method}`;
  return {
    problemOf(place, body) {
      const isValid = ajv.validate({ $ref: `api#${place}` }, body);
      return isValid ? undefined : ajv.errorsText(ajv.errors, { separator: '\n' });
    },
    answerOf: (path, method) =>
      `${operation(path, method)}/responses/200/content/application~1json/schema`,
    eventOf: (path) =>
      `${operation(path, 'get')}/responses/200/content/text~1event-stream/x-event-data`,
    inputOf: (path, method) =>
      method === 'get'
        ? `${operation(path, method)}/parameters/0/content/application~1json/schema`
        : `${operation(path, method)}/requestBody/content/application~1json/schema`,
  };
}

/** The same schemas, which accept no field that they do not name. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]) => [key, closed(inner)] as const);
  const schema: Json = Object.fromEntries(entries);
  const isObject = schema['type'] === 'object' && 'properties' in schema;
  return isObject && !('additionalProperties' in schema)
    ? { ...schema, additionalProperties: false }
    : schema;
}
