/**
 * The one entry of a drone: `main.mjs agent --config FILE` and `main.mjs warden STATE_DIR`. What
 * either needs is loaded only then, so that the warden stays small.
 */
const [role, ...args] = process.argv.slice(2);

if (role === 'warden') {
  const { runWarden } = await import('./warden/run-warden.ts');
  const [stateDir] = args;
  if (stateDir === undefined) throw new Error('usage: warden STATE_DIR');
  await runWarden({ stateDir });
  process.exit(0);
} else {
  const { runDroneCommand } = await import('./drone-command.ts');
  process.exitCode = await runDroneCommand(role === 'agent' ? args : process.argv.slice(2));
}

export {};
