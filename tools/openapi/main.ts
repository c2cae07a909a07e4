/** Writes the description of the API: `npm run docs:openapi`; with `--check` it only compares. */
import { readFile, writeFile } from 'node:fs/promises';
import { openApiFile, openApiText } from './file.ts';

const text = await openApiText();
if (process.argv.includes('--check')) {
  if ((await readFile(openApiFile, 'utf8')) !== text) {
    console.error(`${openApiFile} is not up to date: run \`npm run docs:openapi\``);
    process.exitCode = 1;
  }
} else {
  await writeFile(openApiFile, text);
}
