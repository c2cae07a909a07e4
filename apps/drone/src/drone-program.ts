/**
 * A drone by its arguments: `agent --config FILE`, `upgrade --config FILE`, `health --config FILE` and
 * `warden STATE_DIR PATH`. What each needs is loaded only then, so that the warden stays small.
 */
import v8 from 'node:v8';
import { closeInheritedDescriptors } from '@leasehold/service-kit/inherited-descriptors';
import packageJson from '../package.json' with { type: 'json' };

/** How this drone was made, and how it starts itself again. */
interface DroneProgram {
  /** What its user types to run an agent. */
  readonly name: string;
  /** What tells it from another build of the same version: the commit that it was built from, or a digest of its file. */
  readonly build: string;
  /** The command line that runs it, before the arguments. Its last word is the drone's own file. */
  readonly command: readonly string[];
  /** The licenses of what others have written of it. */
  readonly licenses: () => string;
}

/** Runs the part that the arguments name. Returns the exit code. */
export async function runDroneProgram(
  program: DroneProgram,
  args: readonly string[],
): Promise<number> {
  const [role = 'agent', ...rest] = args;
  switch (role) {
    case '--version':
      process.stdout.write(`${versionText(program)}\n`);
      return 0;
    case '--licenses':
      process.stdout.write(program.licenses());
      return 0;
    case 'warden':
      return runWardenOf(rest);
    case 'health': {
      const { runHealthCommand } = await import('./drone-command.ts');
      return runHealthCommand(program.name, rest);
    }
    case 'upgrade': {
      const { runUpgradeCommand } = await import('./upgrade.ts');
      return runUpgradeCommand(program, rest);
    }
    default:
      return runAgentOf(program, role === 'agent' ? rest : args);
  }
}

/** The version, and what it was built from and for. */
function versionText({ name, build }: DroneProgram): string {
  const platform = `${process.platform}-${process.arch}`;
  const parts = [`build ${build}`, platform, `Node ${process.version}`];
  return `${name} ${packageJson.version} (${parts.join(', ')})`;
}

async function runWardenOf([stateDir = '', searchPath = '']: readonly string[]): Promise<number> {
  // What the drone was started with is not for backends; nor may its mask narrow the modes of their folders.
  closeInheritedDescriptors();
  process.umask(0o022);
  keepMemorySmall();
  keepCodeSmall();
  const { runWarden } = await import('./warden/run-warden.ts');
  await runWarden({ stateDir, searchPath });
  return 0;
}

async function runAgentOf(
  { name, build, command }: DroneProgram,
  args: readonly string[],
): Promise<number> {
  keepMemorySmall();
  const { runDroneCommand } = await import('./drone-command.ts');
  return runDroneCommand({ name, build, args, wardenCommand: [...command, 'warden'] });
}

/**
 * Keeps the heap close to the size of its live objects. A thousand backends that start together leave garbage
 * that would otherwise stay for minutes, in a young generation of 32 MB and an old one of three times
 * its contents; a drone's memory is taken from the backends that it runs.
 */
export function keepMemorySmall(): void {
  v8.setFlagsFromString('--semi-space-growth-factor=1');
  v8.setFlagsFromString('--heap-growing-percent=20');
}

/**
 * For a process that does little work: code is compiled, and not optimized. The optimizer and its
 * output take 5 MB.
 */
function keepCodeSmall(): void {
  v8.setFlagsFromString('--no-opt');
}
