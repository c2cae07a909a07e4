/** Which tests are run on a mutation, and in which order. The names of their files decide it. */
import path from 'node:path';

const NIGHTLY = /\.nightly\./u;
const PROCESS = /\.process\.(?:nightly\.)?test\.ts$/u;
/** The test of the list fails for every mutation, and would find all. */
const OWN = 'tools/mutations/';

/** How many folders of its path are a file's slice, as `libs/keys-core/src/grants`, and its project. */
const SLICE_DEPTH = 4;
const PROJECT_DEPTH = 2;

/**
 * The rounds for a mutation of `file`, one after the other until one finds it: of the gate first the tests
 * without processes, then those with, and then the same of what only `npm run test:all` runs; each time
 * those with the file's name first, then those of its slice, of its project, and all others.
 * @returns for each round its suite, whether it needs the bundles, and its files; none without files.
 */
export function roundsFor(file, testFiles) {
  const own = `/${path.basename(file, '.ts')}.`;
  const near = [
    (test) => test.includes(own),
    (test) => test.startsWith(folderOf(file, SLICE_DEPTH)),
    (test) => test.startsWith(folderOf(file, PROJECT_DEPTH)),
    () => true,
  ];
  const left = new Set(testFiles.filter((test) => !test.startsWith(OWN)));
  const rounds = [];
  for (const isNightly of [false, true]) {
    for (const ofProcesses of [false, true]) {
      for (const isNear of near) {
        const files = [...left].filter(
          (test) =>
            isNear(test) && NIGHTLY.test(test) === isNightly && needsBundles(test) === ofProcesses,
        );
        for (const test of files) left.delete(test);
        const suite = isNightly ? 'all' : 'gate';
        if (files.length > 0) rounds.push({ suite, needsBundles: ofProcesses, files });
      }
    }
  }
  return rounds;
}

/** Whether a test runs the bundles of the apps. */
export function needsBundles(test) {
  return PROCESS.test(test);
}

/** The first folders of a path, with a slash at the end. */
function folderOf(file, depth) {
  return `${path.dirname(file).split('/').slice(0, depth).join('/')}/`;
}
