/** The description of the API, as far as the reference reads it. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { ROOT } from '../root.ts';

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
