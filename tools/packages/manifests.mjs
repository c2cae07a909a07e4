/**
 * What the packages are: their names, and the fields of their manifests that all of them share.
 *
 * What others maintain is bundled into them: installed as in the repository, an app would need some 400 packages, and tRPC
 * would install a compiler beside every service. A fix of a bundled package reaches users with the next version.
 */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of the repository. */
export const root = fileURLToPath(new URL('../..', import.meta.url));

/** The libraries that are packages of their own; each is built into its `dist`. */
export const LIBRARIES = ['client', 'core'];

const KEYWORDS = ['lease', 'lock', 'fencing', 'leader-election', 'postgresql', 'single-instance'];

export async function readManifest(...place) {
  return JSON.parse(await readFile(path.join(root, ...place, 'package.json'), 'utf8'));
}

/**
 * One version, license and place for all packages. The place is the `repository` of the root manifest; there is
 * no such field as long as the repository has no public address.
 */
export async function commonFields(directory) {
  const { version, license, engines, repository } = await readManifest();
  return {
    version,
    license,
    keywords: KEYWORDS,
    author: 'The Leasehold authors',
    engines,
    ...(repository === undefined ? {} : { repository: { ...repository, directory } }),
    publishConfig: { access: 'public' },
  };
}

/** The manifest of the package `leasehold`: everything but PostgreSQL is inside it. */
export async function leaseholdManifest() {
  const { name, description, type } = await readManifest();
  return {
    name,
    description: `Leases and single-instance backends on PostgreSQL. ${description}`,
    type,
    ...(await commonFields('apps/cli')),
    bin: { leasehold: 'apps/cli/bin/leasehold.mjs' },
    exports: {
      './package.json': './package.json',
      './leasehold.config.schema.json': './leasehold.config.schema.json',
    },
    files: [
      'apps',
      'examples',
      'prisma',
      'leasehold.config.schema.json',
      'CHANGELOG.md',
      'THIRD-PARTY-LICENSES.txt',
    ],
    optionalDependencies: await postgresOfPlatforms(),
  };
}

/** The manifest of a library, completed: its `dist` has what is its own. */
export async function libraryManifest(library) {
  const { name, description, type, sideEffects, exports, files, ...built } = await readManifest(
    'libs',
    library,
    'dist',
  );
  const { dependencies, peerDependencies, peerDependenciesMeta } = built;
  return {
    name,
    description,
    type,
    ...(await commonFields(`libs/${library}`)),
    sideEffects,
    main: exports['.'].default,
    types: exports['.'].types,
    exports,
    files: [...files, 'CHANGELOG.md', 'THIRD-PARTY-LICENSES.txt'],
    dependencies,
    peerDependencies,
    peerDependenciesMeta,
  };
}

/** npm installs only the one that fits. */
async function postgresOfPlatforms() {
  return (await readManifest('libs', 'keys-core')).optionalDependencies;
}
