/**
 * `npm run e2e`: the console in a real browser. Installs and builds what is missing first. Arguments
 * go to Playwright: `npm run e2e -- sign-in --headed`.
 */
import { runBrowserTests } from './suite/browser-tests.mjs';
import { prepare } from './workspace.mjs';

await prepare('npm run e2e');

const args = process.argv.slice(2);
// Who names a test wants it, whatever suite it is in.
const env = args.length === 0 ? { LEASEHOLD_TEST_SUITE: 'gate' } : {};
const { passed, failed, failures } = await runBrowserTests(args, { env });
for (const failure of failures) console.log(`failed: ${failure}`);
console.log(`\n${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
