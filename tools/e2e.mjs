/**
 * `npm run e2e`: the console in a real browser. Installs and builds what is missing first. Arguments
 * go to Playwright: `npm run e2e -- sign-in --headed`.
 */
import { runBrowserTests } from './suite/browser-tests.mjs';
import { generate, install, runNx } from './workspace.mjs';

const STEPS = [
  { name: 'install', work: () => install('install') },
  { name: 'generate', work: generate },
  { name: 'build', work: () => runNx(['run-many', '-t', 'build', '--outputStyle=static']) },
];

for (const { name, work } of STEPS) {
  const code = await work();
  if (code === 0) continue;
  console.error(`npm run e2e: the step "${name}" failed.`);
  process.exit(code);
}

const { passed, failed, reason } = await runBrowserTests(process.argv.slice(2));
if (reason !== undefined) console.log(`failed: ${reason}`);
console.log(`\n${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
