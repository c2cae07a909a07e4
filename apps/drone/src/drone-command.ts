export async function runDroneCommand(args: readonly string[]): Promise<number> {
  await Promise.resolve(args);
  return 2;
}
