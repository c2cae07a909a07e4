/**
 * `npm run e2e`: the console in a real browser. Installs and builds what is missing first. Arguments
 * go to Playwright: `npm run e2e -- sign-in --headed`.
 */
import { runBrowserTests } from './suite/browser-tests.mjs';
import { prepare } from './workspace.mjs';

await prepare('npm run e2e');

const { passed, failed, reason } = await runBrowserTests(process.argv.slice(2));
if (reason !== undefined) console.log(`failed: ${reason}`);
console.log(`\n${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
