/** Next calls it once in each process that serves the app, before the first request. */
export async function register(): Promise<void> {
  // In these words: Next removes what follows from its build for the edge, which has no database client.
  if (process.env.NEXT_RUNTIME === 'nodejs') {
    const { startCron } = await import('./start.ts');
    startCron();
  }
}
