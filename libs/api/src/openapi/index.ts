/** The description of the API, OpenAPI 3.1: see docs/http-api.md. */
export { itemSchemas } from '../contract/common.ts';

let text: Promise<string> | undefined;

/** The description as JSON. Loaded when it is asked for: most controllers are never asked. */
export function readOpenApi(): Promise<string> {
  text ??= import('./openapi.json', { with: { type: 'json' } }).then(({ default: document }) =>
    JSON.stringify(document),
  );
  return text;
}
