/**
 * The one entry of a drone: `main.mjs agent --config FILE` and `main.mjs warden STATE_DIR PATH`. What
 * either needs is loaded only then, so that the warden stays small.
 */
import { keepCodeSmall, keepMemorySmall } from './small-memory.ts';

keepMemorySmall();
const [role, ...args] = process.argv.slice(2);

if (role === 'warden') {
  keepCodeSmall();
  const { runWarden } = await import('./warden/run-warden.ts');
  await runWarden({ stateDir: args[0] ?? '', searchPath: args[1] ?? '' });
  process.exit(0);
} else {
  const { runDroneCommand } = await import('./drone-command.ts');
  const wardenCommand = [process.execPath, process.argv[1] ?? '', 'warden'];
  process.exit(
    await runDroneCommand({ args: role === 'agent' ? args : process.argv.slice(2), wardenCommand }),
  );
}
