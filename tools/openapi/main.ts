/** Writes the description of the API: `npm run docs:openapi`. */
import { writeFile } from 'node:fs/promises';
import { openApiFile, openApiText } from './file.ts';

await writeFile(openApiFile, await openApiText());
