/** The same rules for all projects at once; see `whole.mjs`. */
import base from '../../eslint.config.mjs';
import { WHOLE, writeWhole } from './whole.mjs';
import { root } from '../workspace.mjs';

const own = await writeWhole();

// eslint-disable-next-line no-restricted-syntax -- ESLint asks for one.
export default [
  ...base,
  {
    files: ['**/*.ts'],
    ignores: own.map((folder) => `${folder}/**`),
    languageOptions: {
      // A file that is in no project is an error here, and is not skipped.
      parserOptions: { projectService: false, project: [WHOLE], tsconfigRootDir: root },
    },
  },
];
