/**
 * `npm run mutations`: breaks the code of a throw-away copy in one place after the other, and looks which
 * test finds it. Ends with 1 unless the gate finds nine tenths of them, and `test:all` all.
 *
 *   npm run mutations                          all of them, by the tests of `npm test`
 *   npm run mutations -- --all                 also by those that only `npm run test:all` runs
 *   npm run mutations -- NAME …                only these
 *
 * The list is `tools/mutations/list.mjs`. Everything must be built; tests in a browser are left out.
 */
import { execFileSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { makeCopy } from './mutations/copy.mjs';
import { MUTATIONS } from './mutations/list.mjs';
import { needsBundles, roundsFor } from './mutations/rounds.mjs';
import { bundleApps, failuresOf } from './mutations/run-tests.mjs';

const GATE_SHARE_MIN = 0.9;

const names = process.argv.slice(2).filter((arg) => arg !== '--all');
const isAll = process.argv.includes('--all');
const unknown = names.filter((name) => !MUTATIONS.some((mutation) => mutation.name === name));
if (unknown.length > 0) {
  console.error(`no such mutation: ${unknown.join(', ')}`);
  process.exit(2);
}
const wanted = MUTATIONS.filter(({ name }) => names.length === 0 || names.includes(name));

for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130));
const copy = await makeCopy();
const testFiles = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', '*.test.ts'],
  { cwd: copy, encoding: 'utf8' },
)
  .trim()
  .split('\n');

const results = [];
for (const mutation of wanted) {
  const result = { mutation, ...(await find(mutation)) };
  results.push(result);
  console.log(lineOf(result));
}
await takeBack(results);
process.exit(report(results));

/** @returns the suite and the test that found it, if any did, and how long that took. */
async function find({ file, find: original, replace }) {
  const startedAtMs = performance.now();
  const place = path.join(copy, file);
  const text = await readFile(place, 'utf8');
  // The text may contain what `replace` would take for a pattern.
  await writeFile(
    place,
    text.replace(original, () => replace),
  );
  let found;
  try {
    let isBundled = false;
    for (const round of roundsFor(file, testFiles)) {
      const { suite } = round;
      if (suite === 'all' && !isAll) break;
      if (round.needsBundles && !isBundled) await bundleApps(copy);
      isBundled ||= round.needsBundles;
      const [failure] = await failuresOf(copy, round.files, { suite, bail: true });
      if (failure === undefined) continue;
      found = { suite, ...failure };
      break;
    }
  } finally {
    await writeFile(place, text);
  }
  return { found, seconds: Math.round((performance.now() - startedAtMs) / 1_000) };
}

/** Takes back what was found by a test that fails in the code as it is, too. */
async function takeBack(results) {
  const files = [
    ...new Set(results.flatMap(({ found }) => (found === undefined ? [] : found.file))),
  ];
  if (files.length === 0) return;
  if (files.some(needsBundles)) await bundleApps(copy);
  const failing = await failuresOf(copy, files, { suite: isAll ? 'all' : 'gate', bail: false });
  for (const result of results) {
    const { found } = result;
    if (!failing.some(({ file, test }) => file === found?.file && test === found.test)) continue;
    console.log(`${result.mutation.name}: its test fails without it, too: ${found.file}`);
    result.found = undefined;
  }
}

function lineOf({ mutation, found, seconds }) {
  const by = found === undefined ? 'NOT FOUND' : `found by ${found.file}: ${found.test}`;
  return `${String(seconds).padStart(4)} s  ${mutation.name}: ${by}`;
}

/** Prints the table and the figures. @returns the exit code. */
function report(results) {
  const by = (suite) => results.filter(({ found }) => found?.suite === suite).length;
  const [gate, all] = [by('gate'), by('gate') + by('all')];
  console.log('\n| mutation | promise that it breaks | found by | s |\n| --- | --- | --- | --- |');
  for (const { mutation, found, seconds } of results) {
    const test = found === undefined ? '—' : `\`${found.file}\`: ${found.test}`;
    console.log(`| ${mutation.name} | ${mutation.breaks} | ${test} | ${seconds} |`);
  }
  const total = results.length;
  console.log(`\n${gate} of ${total} found by the gate`);
  if (isAll) console.log(`${all} of ${total} found by all tests`);
  return gate >= GATE_SHARE_MIN * total && (!isAll || all === total) ? 0 : 1;
}
