/** `npm run lint`: types and all rules, of the files and folders that are named or of everything. */
import { findProjects, linters } from './suite/linters.mjs';

const paths = process.argv.slice(2);
const steps = [{ run: findProjects }, ...linters(paths.length === 0 ? undefined : paths)];
for (const { run } of steps) {
  if ((await run()) !== 0) process.exitCode = 1;
}
