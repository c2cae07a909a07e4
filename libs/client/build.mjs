/** Builds the package that is published, into `libs/client/dist`: `node build.mjs`. */
import { packLibrary } from '../../tools/pack-library.mjs';

await packLibrary({
  folder: import.meta.dirname,
  madeOf: ['api', 'keys-core', 'service-kit'],
});
