/** A drone as a file that Node runs. */
import { endProcessAfter } from '@leasehold/service-kit/end-process';
import { runDroneProgram } from './drone-program.ts';

await endProcessAfter(
  runDroneProgram(
    {
      name: 'leasehold drone',
      build: null,
      command: [process.execPath, process.argv[1] ?? ''],
      licenses: () => 'See THIRD-PARTY-LICENSES.txt in the package leasehold.\n',
    },
    process.argv.slice(2),
  ),
);
