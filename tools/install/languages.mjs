/** The languages of examples/languages: the machine's, or else, on a Debian as root, the distribution's. */
import { findProgram, installPackages } from './debian.mjs';

/** Programs, and the packages that bring them. Go takes 250 MB: it is installed only for the long run. */
const PROGRAMS = { curl: 'curl', python3: 'python3' };
const PROGRAMS_OF_LONG_RUNS = { ...PROGRAMS, go: 'golang-go' };

/** Makes sure that the examples can be run; prints what is left out when that fails. */
export async function ensureLanguages({ isLong }) {
  const programs = Object.entries(isLong ? PROGRAMS_OF_LONG_RUNS : PROGRAMS);
  const wanted = await missingOf(programs);
  await installPackages(
    wanted.map(([, name]) => name),
    'the examples in other languages',
  );
  for (const [program, name] of await missingOf(programs)) {
    console.error(
      `No ${program} was found, and none could be installed. The examples that need it are not run, and
\`npm run test:long\` fails: install it, such as Debian's package "${name}", so that it is in PATH.`,
    );
  }
}

async function missingOf(programs) {
  const found = await Promise.all(programs.map(async ([program]) => findProgram(program)));
  return programs.filter((_entry, index) => found[index] === undefined);
}
