/** The description of the API, OpenAPI 3.1: see docs/api.md. */
export { itemSchemas } from '../contract/common.ts';

/** Loaded when it is asked for: most controllers are never asked. */
export async function readOpenApi(): Promise<string> {
  const { default: document } = await import('./openapi.json', { with: { type: 'json' } });
  return JSON.stringify(document);
}
