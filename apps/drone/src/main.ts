/** A drone as a file that Node runs. */
import { runDroneProgram } from './drone-program.ts';

process.exit(
  await runDroneProgram(
    {
      name: 'leasehold drone',
      build: null,
      command: [process.execPath, process.argv[1] ?? ''],
      licenses: () => 'See THIRD-PARTY-LICENSES.txt in the package leasehold.\n',
    },
    process.argv.slice(2),
  ),
);
