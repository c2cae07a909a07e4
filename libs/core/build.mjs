/** Builds the package that is published, into `libs/core/dist`: `node build.mjs`. */
import path from 'node:path';
import { packLibrary } from '../../tools/pack-library.mjs';

await packLibrary({
  folder: import.meta.dirname,
  madeOf: ['keys-core', 'service-kit'],
  // The template tag alone: a service brings its own client, of whichever version.
  alias: {
    '@prisma/client/runtime/client': path.join(import.meta.dirname, 'src', 'template-tag.ts'),
  },
});
