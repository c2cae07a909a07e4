import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { format, resolveConfig } from 'prettier';
import { openApiOf } from './document.ts';

const ROOT = path.join(import.meta.dirname, '../..');

/** Where the description is, in the sources of the API. */
export const openApiFile = path.join(ROOT, 'libs/api/src/openapi/openapi.json');

/** What that file must contain. */
export async function openApiText(): Promise<string> {
  const { version } = JSON.parse(await readFile(path.join(ROOT, 'package.json'), 'utf8')) as {
    version: string;
  };
  const text = JSON.stringify(openApiOf(ROOT, version));
  return format(text, { ...(await resolveConfig(openApiFile)), parser: 'json' });
}
