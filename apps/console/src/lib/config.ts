/** Where the controller is, for what the console asks it on a browser's behalf. */
export function controllerUrl(): string {
  return process.env['LEASEHOLD_URL'] ?? 'http://127.0.0.1:4600';
}
