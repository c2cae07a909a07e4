/** What reads the sources without running them: `npm run lint`, and its part of `npm test`. */
import { runInstalled, runNx } from '../workspace.mjs';

/**
 * ESLint has the rules that need no types. oxlint has those that do, and the compiler's own errors.
 * @param paths files and folders; everything by default.
 */
export function linters(paths = ['.']) {
  return [
    {
      name: 'lint',
      run: (options) => runInstalled('.bin/eslint', ['--max-warnings=0', ...paths], options),
    },
    {
      name: 'types',
      run: (options = {}) =>
        runInstalled('.bin/oxlint', ['--threads=1', ...paths], {
          ...options,
          // It is written in Go: a fifth of its time went into collecting garbage.
          env: { ...options.env, GOGC: '400' },
        }),
    },
  ];
}

/** Without nx's graph of the projects, ESLint does not check the boundaries between them, and says nothing. */
export function findProjects() {
  return runNx(['show', 'projects'], { ifFailed: true });
}
