/** Writes the schema of `leasehold.config.json` for editors: `npm run docs:config`. */
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { upFileJsonSchema } from '../apps/cli/src/up/up-request.ts';

const file = path.join(import.meta.dirname, '../apps/cli/leasehold.config.schema.json');
await writeFile(file, `${JSON.stringify(upFileJsonSchema(), null, 2)}\n`);
